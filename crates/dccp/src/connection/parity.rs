//! Parity packets (forward error correction): rebuild lost data where there is no time for a retransmission.
//!
//! A parity packet is a data packet with an option that lists the sequence numbers of its block (option 126, reserved
//! for experiments by RFC 4340 §19.3). It is sent only to a peer that agreed, and never reaches the application.
//! Congestion control sees every loss; the source sees rebuilt data as acknowledged, and data that parity may still
//! rebuild not yet as lost.

pub(super) mod blocks;
pub(super) mod covered;
pub(super) mod losses;
pub(crate) mod name;
pub(super) mod rebuild;
pub(super) mod spare_capacity;
pub(super) mod stake;

use timeous_cm::{FlowId, Manager};
use timeous_core::{AduMeta, AduSource, Duration, Instant, PathState, Priority, PulledAdu, Rate, Transmit};

use super::config::Parity;
use super::options::Heard;
use super::protection::{Protection, Ready};
use super::seal::DATA_CHECKSUM_LEN;
use super::{Config, Connection, State, Timer, told};
use crate::features::{Feature, TAKES_PARITY};
use crate::packet::{Body, Header, Packet};
use crate::seq::Seq;
use blocks::Block;
use covered::BlockId;
use name::ParityName;
use stake::is_referred_to;

/// Minimum loss rate for parity, in parts per million. Chosen by us: a higher value leaves rare losses unprotected; a
/// lower one covers paths that lose almost nothing.
const MIN_LOSS_PPM: u32 = 500;
/// Extra time to detect the loss of the last packets of a burst. Chosen by us: a higher value covers more data with
/// parity where the path has spare capacity.
const DETECTION_MARGIN: Duration = Duration::from_millis(10);
/// Retransmission attempts in reach for which data get no parity, even if the path has spare capacity. Chosen by us: a
/// higher value covers more data (docs/design/repair.md, Spare capacity).
const MIN_RETRANSMISSIONS: u64 = 2;
/// Maximum number of blocks whose parity waits to be sent. Chosen by us: a higher value takes more memory for parity
/// that would be late.
const MAX_READY_BLOCKS: usize = 16;

impl Connection {
    /// Whether an ADU that leaves now joins a parity block.
    pub(super) fn protects(&self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        if self.features.remote(Feature::TakeRepeats) != TAKES_PARITY
            || path.loss_ppm < MIN_LOSS_PPM
            || meta.priority == Priority::LOWEST
        {
            return false;
        }
        match (self.config.parity, path.srtt, meta.deadline) {
            (Parity::Off, ..) | (_, None, _) => false,
            (Parity::Always, ..) => true,
            (Parity::Auto, Some(srtt), Some(deadline)) => {
                let has_room = self.protection.spare.share(path) > 0.0;
                !path.has_second_chance(now, deadline)
                    || has_room && now + (srtt + DETECTION_MARGIN) * MIN_RETRANSMISSIONS + path.one_way() > deadline
            }
            (Parity::Auto, _, None) => false,
        }
    }

    /// Accounts for an ADU that leaves for the first time with the next packet; if `is_protected`, adds its payload,
    /// the last bytes of `packet`, to a block.
    pub(super) fn protect(
        &mut self,
        now: Instant,
        path: &PathState,
        adu: &PulledAdu,
        packet: &[u8],
        is_protected: bool,
    ) {
        self.protection.groups.left(now, &adu.meta);
        if !is_protected {
            self.protection.overhead.note(1, 0);
            return;
        }
        let seq = self.sequence.upcoming();
        let class = usize::from(!is_referred_to(&adu.meta));
        let (spare, burst) = (self.protection.spare.share(path), self.protection.losses.burst());
        let is_over = |block: &Block| {
            !block.has_room_for(seq)
                || block.ends_before(&adu.meta) && (block.is_due(now, false) || block.fits(spare, path, burst))
        };
        if self.protection.blocks[class].as_ref().is_some_and(is_over) {
            self.end_block(class, path);
        }
        let covered = &mut self.protection.covered;
        let block = self.protection.blocks[class].get_or_insert_with(|| Block::new(covered.begin(seq)));
        let way = self.protection.spare.way(path);
        block.add(now, (path, way), seq, &adu.meta, &packet[packet.len() - adu.len..]);
        covered.add_data(block.id, seq);
        self.watch_blocks(now);
    }

    /// Closes a block and encodes its parity.
    fn end_block(&mut self, class: usize, path: &PathState) {
        let Some(block) = self.protection.blocks[class].take() else { return };
        let to_follow = if class == 0 { self.protection.groups.to_follow() } else { 0.0 };
        let (loss, burst) = (f64::from(path.loss_ppm) / 1e6, self.protection.losses.burst());
        let is_full = !path.contended && self.protection.spare.share(path) <= 0.0;
        let price = self.protection.groups.price(is_full);
        let (mut urgent, count) = block.parity(loss, burst, (to_follow, price));
        // With room for all of it, parity waits for a gap in the stream.
        if block.fits(self.protection.spare.share(path), path, burst) {
            urgent = count;
        }
        self.protection.overhead.note(block.seqs.len(), urgent);
        let (id, deadline) = (block.id, block.deadline);
        // The Reed-Solomon code needs shards of even length.
        let longest = block.shards.iter().map(Vec::len).max().unwrap_or(0).next_multiple_of(2);
        let mut shards = block.shards;
        shards.iter_mut().for_each(|shard| shard.resize(longest, 0));
        let made = if count > 0 { reed_solomon_simd::encode(shards.len(), count, &shards).ok() } else { None };
        let verdicts = self.protection.covered.end(id, made.as_ref().map_or(0, Vec::len));
        self.report_verdicts(&verdicts);
        let Some(parity) = made else { return };
        let meta = block.newest;
        let ready = Ready { id, seqs: block.seqs, of: count as u8, shards: parity.into(), urgent, deadline, meta };
        self.protection.ready.push_back(ready);
        if self.protection.ready.len() > MAX_READY_BLOCKS
            && let Some(oldest) = self.protection.ready.pop_front()
        {
            self.give_up_parity(oldest.id);
        }
    }

    fn give_up_parity(&mut self, id: BlockId) {
        let verdicts = self.protection.covered.parity_given_up(id);
        self.report_verdicts(&verdicts);
    }

    fn watch_blocks(&mut self, now: Instant) {
        let blocks = self.protection.blocks.iter().flatten().map(|block| block.watch(now));
        // With a rate-based sender parity may find no room: it expires at its deadline.
        let waits = self.protection.ready.iter().filter(|_| self.rate_sender.is_some());
        let late = waits.map(|ready| ready.deadline + Duration::from_nanos(1));
        match blocks.chain(late).min() {
            Some(at) => self.timers.set(Timer::Parity, at),
            None => self.timers.stop(Timer::Parity),
        }
    }

    /// Selects the parity packet to send now: urgent parity, or any while no fresh data wait and the path has spare
    /// capacity.
    pub(super) fn next_parity(
        &mut self,
        now: Instant,
        cm: &Manager,
        source: &mut dyn AduSource,
        has_fresh: bool,
    ) -> Option<usize> {
        if self.protection.is_idle() {
            return None;
        }
        let path = self.flow.and_then(|flow| told(cm.query(flow)))?;
        self.protection.spare.look(now, &path, self.rate_sender.is_some());
        let path = self.informed(path);
        for class in 0..self.protection.blocks.len() {
            let spare = self.protection.spare.share(&path);
            let burst = self.protection.losses.burst();
            let is_due = |block: &Block| block.is_due(now, has_fresh) || !has_fresh && block.fits(spare, &path, burst);
            if self.protection.blocks[class].as_ref().is_some_and(is_due) {
                self.end_block(class, &path);
            }
        }
        // For a punctual source late data are worse than missing data: parity must not rebuild them late.
        let way = match source.is_punctual() {
            true => path.longest_way().max(self.protection.spare.way(&path)),
            false => path.shortest_way(),
        };
        while let Some(late) = self.protection.ready.iter().position(|ready| now + way > ready.deadline) {
            if let Some(late) = self.protection.ready.remove(late) {
                self.give_up_parity(late.id);
            }
        }
        self.watch_blocks(now);
        let Protection { ready, covered, .. } = &mut self.protection;
        for ready in ready {
            let lacks = covered.lacks(ready.id).min(ready.shards.len());
            // Parity that is known to be needed does not wait for a gap in the stream.
            if lacks > ready.urgent && source.is_worth_repeating(now, &path, &ready.meta) {
                ready.urgent = lacks;
            }
        }
        let urgent = self.protection.ready.iter().position(|ready| ready.urgent > 0);
        let idle = !has_fresh && !self.protection.ready.is_empty() && self.protection.spare.is_any(&path);
        urgent.or_else(|| idle.then_some(0))
    }

    /// Adjusts the path state: loss rate of this connection's data, once known, and the rate that parity leaves.
    pub(super) fn informed(&self, path: PathState) -> PathState {
        let rate = Rate::from_bps(self.protection.overhead.rest(path.rate.as_bps()));
        PathState { loss_ppm: self.protection.losses.ppm_or(path.loss_ppm), rate, ..path }
    }

    /// Sends a packet of parity.
    pub(super) fn send_parity(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        (flow, body): (FlowId, Body),
        place: usize,
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let upcoming = self.sequence.upcoming();
        let ready = self.protection.ready.get_mut(place)?;
        let id = ready.id;
        let index = ready.of - ready.shards.len() as u8;
        let newest = ready.seqs.last().copied()?;
        let name = u16::try_from(upcoming.distance_from(newest))
            .ok()
            .and_then(|back| ParityName::of(&ready.seqs, back, (index, ready.of)));
        let shard = ready.shards.pop_front();
        ready.urgent = ready.urgent.saturating_sub(1);
        if ready.shards.is_empty() {
            self.protection.ready.remove(place);
        }
        let (Some(name), Some(shard)) = (name, shard) else {
            self.skip_parity(now, cm, (flow, id), packet);
            return None;
        };
        let (option, len) = name.option();
        let Some(room) = self.room_beside_parity(len, shard.len()) else {
            self.skip_parity(now, cm, (flow, id), packet);
            return None;
        };
        // If the acknowledgement does not fit beside the parity, it is sent later.
        let body = if self.state == State::Open && self.acknowledgement_len() > room { Body::Data } else { body };
        self.write_options(now, &body, room);
        self.options.widen(len);
        self.options.push(&option).expect("there is room for it");
        let start = self.write_header(now, body, packet);
        packet.extend_from_slice(&shard);
        if self.reads_payload() {
            self.seal(body.packet_type(), start, packet);
        }
        let bytes = packet.len() as u64;
        told(cm.notify(now, flow, bytes));
        let seq = self.depart(now, body.packet_type(), start, packet);
        self.note_data_left(now, seq, None, (shard.len() as u64, bytes));
        let verdicts = self.protection.covered.parity_left(id, Some(seq));
        self.report_verdicts(&verdicts);
        self.statistics.parity_sent += 1;
        self.watch_for_feedback(now, cm);
        Some(Transmit { ecn: self.mark_for(body.packet_type()), adu: None })
    }

    /// Room for further options beside the Parity option of `option` bytes and its shard. `None`: the maximum packet
    /// size has shrunk since the parity was encoded.
    fn room_beside_parity(&self, option: usize, shard: usize) -> Option<usize> {
        let header = Config::HEADER_ROOM - Config::OPTION_ROOM;
        let all = self.config.mps.saturating_sub(header + shard).min(Config::OPTION_ROOM) / 4 * 4;
        let sum = if self.sums_data() { DATA_CHECKSUM_LEN } else { 0 };
        all.checked_sub(option).filter(|&room| room >= sum)
    }

    /// Gives up a parity packet that cannot be sent.
    fn skip_parity(&mut self, now: Instant, cm: &mut Manager, (flow, id): (FlowId, BlockId), packet: &mut Vec<u8>) {
        told(cm.notify(now, flow, 0));
        packet.clear();
        let verdicts = self.protection.covered.parity_left(id, None);
        self.report_verdicts(&verdicts);
    }

    /// Keeps delivered data for rebuilding others of their block.
    pub(super) fn keep_for_rebuilding(&mut self, seq: Seq, payload: &[u8]) {
        if let Some(rebuild) = &mut self.protection.rebuild {
            rebuild.keep(seq, payload);
            self.rebuild();
        }
    }

    /// Takes a received parity packet.
    pub(super) fn take_parity(&mut self, packet: &Packet<'_>, header: &Header, heard: &Heard, name: ParityName) {
        self.statistics.parity_received += 1;
        if let Some(rebuild) = self.protection.rebuild.as_mut().filter(|_| !heard.corrupt) {
            rebuild.add_parity(header.seq - u64::from(name.back), name, packet.payload);
            self.rebuild();
        }
    }

    /// Starts keeping received data once this end has agreed to take parity.
    pub(super) fn mind_parity(&mut self) {
        if self.protection.rebuild.is_none() && self.features.local(Feature::TakeRepeats) == TAKES_PARITY {
            self.protection.rebuild = Some(Box::default());
        }
    }

    fn rebuild(&mut self) {
        let rebuilt = self.protection.rebuild.as_mut().map(|rebuild| rebuild.rebuild());
        for (seq, payload) in rebuilt.into_iter().flatten() {
            if self.has_delivered(seq) || self.refuses(payload.len()) {
                continue;
            }
            self.note_delivered(seq);
            self.statistics.rebuilt += 1;
            self.hand_over(payload);
        }
    }
}
