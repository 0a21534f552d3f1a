//! Parity packets (forward error correction): rebuild lost data where there is no time for a retransmission.
//!
//! A parity packet is a data packet with an option that lists the sequence numbers of its block (option 126, reserved
//! for experiments by RFC 4340 §19.3). It is sent only to a peer that agreed, and never reaches the application.
//! Congestion control sees every loss; the source sees rebuilt data as acknowledged, and data that parity may still
//! rebuild not yet as lost.

mod blocks;
mod covered;
mod losses;
pub(crate) mod name;
pub(super) mod rebuild;
mod spare_capacity;
mod stake;

use std::collections::VecDeque;

use timeous_cm::Loss;
use timeous_core::{AduMeta, AduSource, Duration, Instant, PathState, Priority, Rate};

use super::config::Parity;
use crate::ccid2::PacketFate;
use crate::seq::Seq;
use blocks::Block;
pub(super) use covered::Verdict;
use covered::{BlockId, Covered};
use losses::Losses;
use name::ParityName;
use spare_capacity::SpareCapacity;
use stake::{Groups, Overhead, is_referred_to};

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

/// Builds the tables of the erasure code: some 10 MB, for which the first parity packet of a process waits otherwise (16 ms on a machine
/// of today), and with it all that its thread does.
pub fn prepare_parity() {
    let shards = [[0; 64]; 2];
    let rebuilt = reed_solomon_simd::encode(2, 1, shards)
        .and_then(|parity| reed_solomon_simd::decode(2, 1, [(0, shards[0])], [(0, &parity[0])]));
    debug_assert!(rebuilt.is_ok(), "{rebuilt:?}");
}

/// The description of a parity packet, and its shard.
type Described = (ParityName, Vec<u8>);

/// Parity packets of a block, encoded and waiting to be sent.
#[derive(Clone, Debug)]
struct Ready {
    id: BlockId,
    seqs: Vec<Seq>,
    of: u8,
    shards: VecDeque<Vec<u8>>,
    /// Number of them that have precedence over fresh data.
    urgent: usize,
    deadline: Instant,
    /// Metadata of the newest ADU of the block.
    meta: AduMeta,
}

impl Ready {
    /// Takes the next packet, to be sent as `seq`; `None` if it cannot be described.
    fn take(&mut self, seq: Seq) -> Option<Described> {
        let index = self.of - self.shards.len() as u8;
        let shard = self.shards.pop_front();
        self.urgent = self.urgent.saturating_sub(1);
        let back = u16::try_from(seq.distance_from(*self.seqs.last()?)).ok()?;
        ParityName::of(&self.seqs, back, (index, self.of)).zip(shard)
    }
}

/// Protection of sent data by parity.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    /// Open blocks: one of frames that others may refer to, one of the rest.
    blocks: [Option<Block>; 2],
    ready: VecDeque<Ready>,
    covered: Covered,
    losses: Losses,
    groups: Groups,
    overhead: Overhead,
    spare: SpareCapacity,
}

impl Protection {
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.blocks.iter().all(Option::is_none)
    }

    /// Whether an ADU that leaves now joins a parity block.
    pub(super) fn protects(&self, now: Instant, policy: Parity, path: &PathState, meta: &AduMeta) -> bool {
        if path.loss_ppm < MIN_LOSS_PPM || meta.priority == Priority::LOWEST {
            return false;
        }
        match (policy, path.srtt, meta.deadline) {
            (Parity::Off, ..) | (_, None, _) | (Parity::Auto, _, None) => false,
            (Parity::Always, ..) => true,
            (Parity::Auto, Some(srtt), Some(deadline)) => {
                let has_room = self.spare.share(path) > 0.0;
                !path.has_second_chance(now, deadline)
                    || has_room && now + (srtt + DETECTION_MARGIN) * MIN_RETRANSMISSIONS + path.one_way() > deadline
            }
        }
    }

    /// Accounts for an ADU that leaves for the first time, in a packet of `bytes` bytes, without protection.
    pub(super) fn pass(&mut self, now: Instant, meta: &AduMeta, bytes: u64) {
        self.groups.left(now, meta);
        self.overhead.note(1, 0);
        self.spare.note(meta, bytes);
    }

    /// Accounts for an ADU that leaves for the first time, in a packet of this number and size, and adds its payload
    /// to a block.
    pub(super) fn add(
        &mut self,
        now: Instant,
        path: &PathState,
        (seq, bytes): (Seq, u64),
        meta: &AduMeta,
        payload: &[u8],
    ) -> Vec<Verdict> {
        self.groups.left(now, meta);
        let class = usize::from(!is_referred_to(meta));
        let (spare, burst) = (self.spare.share(path), self.losses.burst());
        let is_over = |block: &Block| {
            !block.has_room_for(seq)
                || block.ends_before(meta) && (block.is_due(now, false) || block.fits(spare, path, burst))
        };
        let is_over = self.blocks[class].as_ref().is_some_and(is_over);
        let verdicts = if is_over { self.end_block(class, path) } else { Vec::new() };
        let block = self.blocks[class].get_or_insert_with(|| Block::new(self.covered.begin(seq)));
        block.add(now, (path, self.spare.way(path)), seq, meta, payload);
        self.covered.add_data(block.id, seq);
        self.spare.note(meta, bytes);
        verdicts
    }

    fn end_block(&mut self, class: usize, path: &PathState) -> Vec<Verdict> {
        let Some(block) = self.blocks[class].take() else { return Vec::new() };
        let to_follow = if class == 0 { self.groups.to_follow() } else { 0.0 };
        let (loss, burst) = (f64::from(path.loss_ppm) / 1e6, self.losses.burst());
        let is_full = !path.contended && self.spare.share(path) <= 0.0;
        let price = self.groups.price(is_full);
        let (mut urgent, count) = block.parity(loss, burst, (to_follow, price));
        // With room for all of it, parity waits for a gap in the stream.
        if block.fits(self.spare.share(path), path, burst) {
            urgent = count;
        }
        self.overhead.note(block.seqs.len(), urgent);
        let (id, deadline) = (block.id, block.deadline);
        // The Reed-Solomon code needs shards of even length.
        let longest = block.shards.iter().map(Vec::len).max().unwrap_or(0).next_multiple_of(2);
        let mut shards = block.shards;
        shards.iter_mut().for_each(|shard| shard.resize(longest, 0));
        let made = if count > 0 { reed_solomon_simd::encode(shards.len(), count, &shards).ok() } else { None };
        let mut verdicts = self.covered.end(id, made.as_ref().map_or(0, Vec::len));
        let Some(parity) = made else { return verdicts };
        let meta = block.newest;
        let ready = Ready { id, seqs: block.seqs, of: count as u8, shards: parity.into(), urgent, deadline, meta };
        self.ready.push_back(ready);
        if self.ready.len() > MAX_READY_BLOCKS
            && let Some(oldest) = self.ready.pop_front()
        {
            verdicts.extend(self.covered.parity_given_up(oldest.id));
        }
        verdicts
    }

    pub(super) fn poll_timeout(&self, now: Instant, is_rate_based: bool) -> Option<Instant> {
        let blocks = self.blocks.iter().flatten().map(|block| block.watch(now));
        // With a rate-based sender parity may find no room: it expires at its deadline.
        let waits = self.ready.iter().filter(|_| is_rate_based);
        blocks.chain(waits.map(|ready| ready.deadline + Duration::from_nanos(1))).min()
    }

    /// Selects the block whose parity is to be sent now: urgent parity, or any while no fresh data wait and the path
    /// has spare capacity.
    pub(super) fn select(
        &mut self,
        now: Instant,
        path: PathState,
        source: &mut dyn AduSource,
        has_fresh: bool,
        is_rate_based: bool,
    ) -> (Option<usize>, Vec<Verdict>) {
        self.spare.look(now, &path, is_rate_based);
        let path = self.informed(path);
        let mut verdicts = Vec::new();
        for class in 0..self.blocks.len() {
            let (spare, burst) = (self.spare.share(&path), self.losses.burst());
            let is_due = |block: &Block| block.is_due(now, has_fresh) || !has_fresh && block.fits(spare, &path, burst);
            if self.blocks[class].as_ref().is_some_and(is_due) {
                verdicts.extend(self.end_block(class, &path));
            }
        }
        // For a punctual source late data are worse than missing data: parity must not rebuild them late.
        let way = match source.is_punctual() {
            true => path.longest_way().max(self.spare.way(&path)),
            false => path.shortest_way(),
        };
        while let Some(late) = self.ready.iter().position(|ready| now + way > ready.deadline) {
            if let Some(late) = self.ready.remove(late) {
                verdicts.extend(self.covered.parity_given_up(late.id));
            }
        }
        for ready in &mut self.ready {
            let lacks = self.covered.lacks(ready.id).min(ready.shards.len());
            // Parity that is known to be needed does not wait for a gap in the stream.
            if lacks > ready.urgent && source.is_worth_repeating(now, &path, &ready.meta) {
                ready.urgent = lacks;
            }
        }
        let urgent = self.ready.iter().position(|ready| ready.urgent > 0);
        let idle = !has_fresh && !self.ready.is_empty() && self.spare.is_any(&path);
        (urgent.or_else(|| idle.then_some(0)), verdicts)
    }

    /// Adjusts the path state: loss rate of this connection's data, once known, and the rate that parity leaves.
    pub(super) fn informed(&self, path: PathState) -> PathState {
        let rate = Rate::from_bps(self.overhead.rest(path.rate.as_bps()));
        PathState { loss_ppm: self.losses.ppm_or(path.loss_ppm), rate, ..path }
    }

    /// Takes the next parity packet of a selected block, to be sent as `seq`: its block, and its name and shard, unless
    /// it cannot be described. [`on_sent`](Self::on_sent) is to be told whether it left.
    pub(super) fn take(&mut self, place: usize, seq: Seq) -> Option<(BlockId, Option<Described>)> {
        let ready = self.ready.get_mut(place)?;
        let (id, packet) = (ready.id, ready.take(seq));
        if ready.shards.is_empty() {
            self.ready.remove(place);
        }
        Some((id, packet))
    }

    /// Notes that a parity packet has left as `seq`, or was given up.
    pub(super) fn on_sent(&mut self, id: BlockId, seq: Option<Seq>) -> Vec<Verdict> {
        self.covered.parity_left(id, seq)
    }

    /// Decides on data by a packet's fate. `None` if no parity covered the packet.
    pub(super) fn on_fate(&mut self, fate: &PacketFate, lost_by: Loss) -> Option<Vec<Verdict>> {
        self.losses.note(fate, lost_by);
        let covered = &mut self.covered;
        match *fate {
            PacketFate::Acked { token, seq, .. } => {
                let verdicts = covered.decide(seq, true, token);
                verdicts.or_else(|| token.map(|token| covered.came_again(seq, token)))
            }
            PacketFate::Dropped { seq, .. } => covered.decide(seq, false, None),
            PacketFate::Lost { token, seq, .. } => covered.decide(seq, false, token),
        }
    }

    pub(super) fn give_up(&mut self) -> Vec<Verdict> {
        self.covered.give_up()
    }
}
