//! Data Dropped options: received data that did not reach the application (RFC 4340 §11.7).

use std::collections::VecDeque;

use crate::options::{DropCode, MAX_OPTION_DATA, Opt, OptionList, encode_drops};
use crate::seq::Seq;

/// Maximum number of drops remembered, newest first; the peer takes forgotten ones for delivered. Chosen by us: a whole
/// window may be dropped before the first report.
const MAX_DROPS: usize = 1_024;
/// Maximum number of packets in one Drop Block: a run length of four bits (RFC 4340 §11.7).
const MAX_BLOCK_PACKETS: usize = 16;
/// Maximum number of reports remembered until acknowledged; forgetting one only repeats its contents. Chosen by us: a
/// higher value takes more memory.
const MAX_UNACKED_REPORTS: usize = 64;

/// A packet whose data were dropped.
#[derive(Clone, Copy, Debug)]
struct Dropped {
    seq: Seq,
    code: DropCode,
    /// Number of drops recorded before this one.
    number: u64,
}

/// Drops that the peer may not know yet: "endpoints SHOULD continue to transmit Data Dropped options until receiving an
/// acknowledgement indicating that the relevant options have been processed" (§11.7).
#[derive(Clone, Debug, Default)]
pub(super) struct Drops {
    /// Newest packet first.
    dropped: VecDeque<Dropped>,
    count: u64,
    /// Our packets with a complete report, and the drop count at that time; oldest first.
    told: VecDeque<(Seq, u64)>,
}

impl Drops {
    /// Records that the data of packet `seq` were dropped; a second call for the same packet changes nothing.
    pub(super) fn add(&mut self, seq: Seq, code: DropCode) {
        let place = self.dropped.iter().position(|dropped| !dropped.seq.is_after(seq)).unwrap_or(self.dropped.len());
        if self.dropped.get(place).is_some_and(|dropped| dropped.seq == seq) {
            return;
        }
        self.dropped.insert(place, Dropped { seq, code, number: self.count });
        self.count += 1;
        self.dropped.truncate(MAX_DROPS);
    }

    /// Appends the unreported drops to an acknowledgement of `ack` on our packet `on`.
    pub(super) fn push_option(&mut self, on: Seq, ack: Seq, out: &mut OptionList) {
        let room = out.room().saturating_sub(2).min(MAX_OPTION_DATA);
        let all: Vec<_> = self.dropped.iter().map(|dropped| (dropped.seq, dropped.code)).collect();
        // Packets after `ack` are not covered by this acknowledgement.
        let known = all.iter().position(|(seq, _)| !seq.is_after(ack)).unwrap_or(all.len());
        let bytes = encode_drops(ack, all[known..].iter().copied(), room);
        if bytes.is_empty() || out.push(&Opt::DataDropped(&bytes)).is_err() {
            return;
        }
        let is_whole = known == 0 && encode_drops(ack, all, usize::MAX).len() == bytes.len();
        if is_whole {
            if self.told.len() == MAX_UNACKED_REPORTS {
                self.told.pop_front();
            }
            self.told.push_back((on, self.count));
        }
    }

    /// Upper bound of the option's size, type and length included; with less room it reports fewer drops.
    pub(super) fn option_len(&self) -> usize {
        let mut last: Option<Dropped> = None;
        let is_gap = |dropped: &&Dropped| {
            let before = last.replace(**dropped);
            before.is_none_or(|before| before.seq != dropped.seq.next() || before.code != dropped.code)
        };
        let gaps = self.dropped.iter().filter(is_gap).count();
        // A Normal Block before each run of Drop Blocks.
        if gaps == 0 { 0 } else { 2 + gaps * 2 + self.dropped.len() / MAX_BLOCK_PACKETS }
    }

    /// Forgets drops reported by our packet `ack`, which the peer has processed.
    pub(super) fn on_ack(&mut self, ack: Seq) {
        let Some(index) = self.told.iter().position(|&(on, _)| on == ack) else { return };
        let known = self.told[index].1;
        self.told.drain(..=index);
        self.dropped.retain(|dropped| dropped.number >= known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::drop_blocks;

    fn report(drops: &mut Drops, on: u64, ack: u64) -> Vec<(u64, DropCode)> {
        let mut options = OptionList::new();
        options.reset(200);
        drops.push_option(Seq::new(on), Seq::new(ack), &mut options);
        let Some(bytes) = options.as_bytes().get(2..) else { return Vec::new() };
        drop_blocks(Seq::new(ack), [bytes])
            .filter_map(|block| Some((block, block.code?)))
            .flat_map(|(block, code)| (block.oldest.value()..=block.newest.value()).rev().map(move |seq| (seq, code)))
            .collect()
    }

    #[test]
    fn it_is_told_again_until_the_peer_has_processed_all_of_it() {
        let (mut drops, buffer, corrupt) = (Drops::default(), DropCode::ReceiveBuffer, DropCode::Corrupt);
        drops.add(Seq::new(7), buffer);
        drops.add(Seq::new(5), corrupt);
        drops.add(Seq::new(7), corrupt);
        assert_eq!(report(&mut drops, 1_000, 9), [(7, buffer), (5, corrupt)]);
        drops.add(Seq::new(10), buffer);
        assert_eq!(report(&mut drops, 1_001, 10), [(10, buffer), (7, buffer), (5, corrupt)]);
        drops.on_ack(Seq::new(1_000));
        assert_eq!(report(&mut drops, 1_002, 11), [(10, buffer)]);
        drops.on_ack(Seq::new(999));
        assert_eq!(drops.option_len(), 4);
        drops.on_ack(Seq::new(1_002));
        assert_eq!((report(&mut drops, 1_003, 12), drops.option_len()), (vec![], 0));
    }

    #[test]
    fn what_an_acknowledgement_leaves_out_is_not_settled_by_it() {
        let mut drops = Drops::default();
        drops.add(Seq::new(20), DropCode::NotListening);
        assert_eq!(report(&mut drops, 1, 19), [], "the newer one is not acknowledged here");
        drops.add(Seq::new(10), DropCode::NotListening);
        assert_eq!(report(&mut drops, 2, 19), [(10, DropCode::NotListening)]);
        drops.on_ack(Seq::new(2));
        assert_eq!(report(&mut drops, 3, 20).len(), 2);
    }

    #[test]
    fn a_whole_window_is_told_in_a_few_bytes() {
        let mut drops = Drops::default();
        for seq in 0..1_000 {
            drops.add(Seq::new(seq), DropCode::ReceiveBuffer);
        }
        assert_eq!(drops.option_len(), 2 + 2 + 62);
        assert_eq!(report(&mut drops, 1, 999).len(), 1_000);
        drops.on_ack(Seq::new(1));
        assert_eq!(drops.option_len(), 0);
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_costs_no_memory() {
        let mut drops = Drops::default();
        for seq in 0..10_000 {
            drops.add(Seq::new(seq), DropCode::Corrupt);
            report(&mut drops, seq, seq);
        }
        assert!(drops.dropped.len() <= MAX_DROPS && drops.told.len() <= MAX_UNACKED_REPORTS);
        assert_eq!(drops.dropped[0].seq, Seq::new(9_999), "the newest are told");
    }
}
