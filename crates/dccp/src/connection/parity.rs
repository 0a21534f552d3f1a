//! Parity: packets that rebuild lost data where there is no time to send them again (forward error correction).
//!
//! A packet of parity is a data packet with an option that names the data it is for by their packets' numbers (126, of those
//! that RFC 4340 §19.3 reserves for experiments). It leaves only to a peer that agreed to it, and never reaches the
//! application. What was lost stays lost for congestion control, which hears of each packet what became of it.

pub(super) mod blocks;
pub(super) mod losses;
pub(crate) mod name;
pub(super) mod rebuild;

use timeous_cm::{FlowId, Manager};
use timeous_core::{AduMeta, Duration, Instant, PathState, Priority, PulledAdu, Transmit};

use super::config::Parity;
use super::options::Heard;
use super::protection::Ready;
use super::{Config, Connection, Timer, told};
use crate::features::{Feature, TAKES_PARITY};
use crate::packet::{Body, Header, Packet};
use crate::seq::Seq;
use blocks::Block;
use name::ParityName;

/// The option with the longest map.
const OPTION_LEN: usize = 16;
/// Before as few packets were lost as that, nothing is added.
const LEAST_LOSS_PPM: u32 = 500;
/// What the end of a burst takes longer to be missed.
const HOLD: Duration = Duration::from_millis(10);
/// As many blocks wait for their parity to leave.
const MOST_READY: usize = 16;

impl Connection {
    /// Whether an ADU that leaves now is to be rebuilt from parity, should it be lost.
    pub(super) fn protects(&self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        if self.features.remote(Feature::TakeRepeats) != TAKES_PARITY
            || path.loss_ppm < LEAST_LOSS_PPM
            || meta.priority == Priority::LOWEST
        {
            return false;
        }
        match (self.config.parity, path.srtt, meta.deadline) {
            (Parity::Off, ..) | (_, None, _) => false,
            (Parity::Always, ..) => true,
            (Parity::Auto, Some(srtt), Some(deadline)) => now + srtt + HOLD + path.one_way() > deadline,
            (Parity::Auto, _, None) => false,
        }
    }

    /// An ADU leaves with the next packet, whose last bytes are its payload.
    pub(super) fn protect(&mut self, now: Instant, path: &PathState, adu: &PulledAdu, packet: &[u8]) {
        let seq = self.sequence.upcoming();
        if self.protection.block.as_ref().is_some_and(|block| !block.has_room_for(seq)) {
            self.end_block(path);
        }
        let block = self.protection.block.get_or_insert_with(Block::new);
        block.add(now, path, seq, &adu.meta, &packet[packet.len() - adu.len..]);
        let due = block.due;
        self.timers.set(Timer::Parity, due);
    }

    /// Makes the parity of what was sent.
    fn end_block(&mut self, path: &PathState) {
        let Some(block) = self.protection.block.take() else { return };
        self.timers.stop(Timer::Parity);
        let count = block.parity(f64::from(path.loss_ppm) / 1e6, self.protection.losses.burst());
        // Shards have an even length.
        let longest = block.shards.iter().map(Vec::len).max().unwrap_or(0).next_multiple_of(2);
        let mut shards = block.shards;
        shards.iter_mut().for_each(|shard| shard.resize(longest, 0));
        let Ok(parity) = reed_solomon_simd::encode(shards.len(), count, &shards) else { return };
        let ready = Ready { seqs: block.seqs, of: count as u8, shards: parity.into(), deadline: block.deadline };
        self.protection.ready.push_back(ready);
        if self.protection.ready.len() > MOST_READY {
            self.protection.ready.pop_front();
        }
    }

    /// Whether there is parity to leave, where nothing fresh waits.
    pub(super) fn has_parity(&mut self, now: Instant, cm: &Manager) -> bool {
        if self.protection.block.is_none() && self.protection.ready.is_empty() {
            return false;
        }
        let Some(path) = self.flow.and_then(|flow| told(cm.query(flow))) else { return false };
        if self.protection.block.as_ref().is_some_and(|block| block.due <= now) {
            self.end_block(&self.with_losses(path));
        }
        let way = path.one_way();
        self.protection.ready.retain(|ready| now + way <= ready.deadline);
        !self.protection.ready.is_empty()
    }

    /// The path with the losses of this connection's own data, where those are more.
    pub(super) fn with_losses(&self, path: PathState) -> PathState {
        PathState { loss_ppm: path.loss_ppm.max(self.protection.losses.ppm()), ..path }
    }

    /// Sends a packet of parity.
    pub(super) fn send_parity(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        (flow, body): (FlowId, Body),
        packet: &mut Vec<u8>,
    ) -> Option<Transmit> {
        self.write_options(now, &body, Config::OPTION_ROOM - OPTION_LEN);
        self.options.widen(OPTION_LEN);
        let upcoming = self.sequence.upcoming();
        let ready = self.protection.ready.front_mut()?;
        let index = ready.of - ready.shards.len() as u8;
        let newest = ready.seqs.last().copied()?;
        let name = u16::try_from(upcoming.distance_from(newest))
            .ok()
            .and_then(|back| ParityName::of(&ready.seqs, back, (index, ready.of)));
        let shard = ready.shards.pop_front();
        if ready.shards.is_empty() {
            self.protection.ready.pop_front();
        }
        let (Some(name), Some(shard)) = (name, shard) else {
            told(cm.notify(now, flow, 0));
            return None;
        };
        let (map, len) = name.map();
        self.options.push(&name.option(&map[..len])).expect("there is room for it");
        let start = self.write_header(now, body, packet);
        packet.extend_from_slice(&shard);
        if packet.len() > self.config.mps {
            // The ADU was as long as can be, and an acknowledgement goes along: the next one may have room.
            told(cm.notify(now, flow, 0));
            packet.clear();
            return None;
        }
        if self.reads_payload() {
            self.seal(body.packet_type(), start, packet);
        }
        let bytes = packet.len() as u64;
        told(cm.notify(now, flow, bytes));
        let seq = self.depart(now, body.packet_type(), start, packet);
        self.note_data_left(now, seq, None, (shard.len() as u64, bytes));
        self.statistics.parity_sent += 1;
        self.watch_for_feedback(now, cm);
        Some(Transmit { ecn: self.mark_for(body.packet_type()), adu: None })
    }

    /// Data arrived and were delivered.
    pub(super) fn keep_for_rebuilding(&mut self, seq: Seq, payload: &[u8]) {
        if let Some(rebuild) = &mut self.protection.rebuild {
            rebuild.keep(seq, payload);
            self.rebuild();
        }
    }

    /// A packet of parity arrived.
    pub(super) fn take_parity(&mut self, packet: &Packet<'_>, header: &Header, heard: &Heard, name: ParityName) {
        self.statistics.parity_received += 1;
        if let Some(rebuild) = self.protection.rebuild.as_mut().filter(|_| !heard.corrupt) {
            rebuild.add_parity(header.seq - u64::from(name.back), name, packet.payload);
            self.rebuild();
        }
    }

    /// Whether this end takes parity: from now on it keeps what arrives.
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
