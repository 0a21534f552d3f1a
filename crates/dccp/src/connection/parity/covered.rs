//! The sender's view of parity blocks: which lost data the peer can rebuild.
//!
//! The peer rebuilds a block once it has as many of its data and parity packets as the block has data. By the
//! acknowledgements, rebuilt data count as arrived, and lost data as lost only when nothing can rebuild them any more.

use std::collections::BTreeMap;

use crate::seq::Seq;

/// Packets for which the peer is sure to keep received data, out of its 1024 (docs/design/repair.md). Chosen by us:
/// with a higher value parity is sent that may be useless.
const PEER_MEMORY: u64 = 768;
/// Maximum number of blocks remembered. Chosen by us: a higher value takes more memory; the fate of older blocks is
/// settled.
const MAX_BLOCKS: usize = 64;

/// Unique name of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BlockId(u64);

/// Fate of lost data that a block covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) token: u64,
    pub(crate) seq: Seq,
    /// Whether they were rebuilt, and so delivered; otherwise they are lost for good.
    pub(crate) came: bool,
}

/// Blocks whose outcome is open.
#[derive(Clone, Debug, Default)]
pub(crate) struct Covered {
    blocks: BTreeMap<BlockId, Open>,
    /// Block of each packet in flight, by sequence number.
    under_way: BTreeMap<u64, BlockId>,
    begun: u64,
}

#[derive(Clone, Debug)]
struct Open {
    first: Seq,
    /// Number of data packets in the block.
    data: usize,
    /// Data and parity packets that arrived.
    arrived: usize,
    under_way: usize,
    /// Parity packets still to be sent; `None` while the block is open.
    unsent: Option<usize>,
    /// Data known to be lost.
    lost: Vec<(Seq, u64)>,
    /// Lost data that were reported as lost. Their retransmission may arrive, and then complete the block.
    told: Vec<(Seq, u64)>,
}

impl Open {
    fn is_rebuilt(&self) -> bool {
        self.unsent.is_some() && self.arrived >= self.data
    }

    fn has_failed(&self) -> bool {
        self.unsent.is_some_and(|unsent| self.arrived + self.under_way + unsent < self.data)
    }
}

impl Covered {
    /// Begins a block with the packet `first`.
    pub(super) fn begin(&mut self, first: Seq) -> BlockId {
        let id = BlockId(self.begun);
        self.begun += 1;
        let open = Open { first, data: 0, arrived: 0, under_way: 0, unsent: None, lost: Vec::new(), told: Vec::new() };
        self.blocks.insert(id, open);
        id
    }

    /// Adds a data packet sent as `seq`.
    pub(super) fn add_data(&mut self, id: BlockId, seq: Seq) {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.data += 1;
            block.under_way += 1;
            self.under_way.insert(seq.value(), id);
        }
    }

    /// Closes the block, with `parity` packets to be sent.
    pub(super) fn end(&mut self, id: BlockId, parity: usize) -> Vec<Verdict> {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.unsent = Some(parity);
        }
        self.judge(id)
    }

    /// Notes that a parity packet left as `seq`, or was skipped.
    pub(super) fn parity_left(&mut self, id: BlockId, seq: Option<Seq>) -> Vec<Verdict> {
        if let Some(block) = self.blocks.get_mut(&id) {
            block.unsent = block.unsent.map(|unsent| unsent.saturating_sub(1));
            if let Some(seq) = seq.filter(|seq| seq.distance_from(block.first) < PEER_MEMORY) {
                block.under_way += 1;
                self.under_way.insert(seq.value(), id);
            }
        }
        self.judge(id)
    }

    /// Drops the block's unsent parity.
    pub(super) fn parity_given_up(&mut self, id: BlockId) -> Vec<Verdict> {
        self.end(id, 0)
    }

    /// Notes that the packet `seq` arrived or was lost, with the data of `token` if it carries any whose fate is open.
    /// Returns the fates that follow, its own included; `None` if no block covers the packet.
    pub(crate) fn decide(&mut self, seq: Seq, arrived: bool, token: Option<u64>) -> Option<Vec<Verdict>> {
        let id = self.under_way.remove(&seq.value())?;
        let block = self.blocks.get_mut(&id)?;
        block.under_way -= 1;
        block.arrived += usize::from(arrived);
        if let Some(token) = token.filter(|_| !arrived) {
            block.lost.push((seq, token));
        }
        Some(self.judge(id))
    }

    /// Notes that a retransmission of `token` arrived as `seq`: the peer has one more packet of its block.
    pub(crate) fn came_again(&mut self, seq: Seq, token: u64) -> Vec<Verdict> {
        let is_it = |&(_, lost): &(Seq, u64)| lost == token;
        let found = self.blocks.iter_mut().find_map(|(&id, block)| {
            if seq.distance_from(block.first) >= PEER_MEMORY {
                return None;
            }
            let list = if block.told.iter().any(is_it) { &mut block.told } else { &mut block.lost };
            let place = list.iter().position(is_it)?;
            list.remove(place);
            block.arrived += 1;
            Some(id)
        });
        found.map_or_else(Vec::new, |id| self.judge(id))
    }

    fn judge(&mut self, id: BlockId) -> Vec<Verdict> {
        let Some(block) = self.blocks.get_mut(&id) else { return Vec::new() };
        let verdict = |came| move |(seq, token)| Verdict { token, seq, came };
        let verdicts = if block.is_rebuilt() {
            block.told.drain(..).chain(block.lost.drain(..)).map(verdict(true)).collect()
        } else if block.has_failed() {
            block.told.extend_from_slice(&block.lost);
            block.lost.drain(..).map(verdict(false)).collect()
        } else {
            Vec::new()
        };
        if block.under_way == 0 && block.unsent == Some(0) && block.told.is_empty() {
            self.blocks.remove(&id);
        }
        if self.blocks.len() > MAX_BLOCKS {
            let is_over = |block: &Open| block.under_way == 0 && block.unsent == Some(0);
            let oldest = self.blocks.iter().find(|(_, block)| is_over(block)).map(|(&id, _)| id);
            oldest.and_then(|id| self.blocks.remove(&id));
        }
        verdicts
    }

    /// Parity packets missing for the block to be rebuilt, if everything in flight arrives.
    pub(super) fn lacks(&self, id: BlockId) -> usize {
        self.blocks.get(&id).map_or(0, |block| block.data.saturating_sub(block.arrived + block.under_way))
    }

    /// Gives up all blocks: reports what is lost as lost.
    pub(crate) fn give_up(&mut self) -> Vec<Verdict> {
        self.under_way.clear();
        let lost = std::mem::take(&mut self.blocks).into_values().flat_map(|block| block.lost);
        lost.map(|(seq, token)| Verdict { token, seq, came: false }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block of the packets 10, 11 and 12, whose tokens are 0, 1 and 2, and two packets of parity that leave as 13 and 14.
    fn block(covered: &mut Covered) -> BlockId {
        let id = covered.begin(Seq::new(10));
        (10..13).for_each(|seq| covered.add_data(id, Seq::new(seq)));
        id
    }

    fn verdict(token: u64, came: bool) -> Verdict {
        Verdict { token, seq: Seq::new(10 + token), came }
    }

    #[test]
    fn what_is_lost_has_come_as_soon_as_enough_of_its_block_has() {
        let mut covered = Covered::default();
        let id = block(&mut covered);
        let decide = |covered: &mut Covered, seq, arrived, token| covered.decide(Seq::new(seq), arrived, token);
        assert_eq!(decide(&mut covered, 10, true, Some(0)), Some(vec![]));
        assert_eq!(decide(&mut covered, 11, false, Some(1)), Some(vec![]), "who knows what parity it gets");
        assert_eq!(covered.end(id, 2), []);
        covered.parity_left(id, Some(Seq::new(13)));
        covered.parity_left(id, Some(Seq::new(14)));
        assert_eq!(decide(&mut covered, 13, true, None), Some(vec![]));
        assert_eq!(decide(&mut covered, 14, true, None), Some(vec![verdict(1, true)]));
        assert_eq!(decide(&mut covered, 12, false, Some(2)), Some(vec![verdict(2, true)]), "rebuilt with the rest");
        assert!(covered.blocks.is_empty() && covered.under_way.is_empty());
        assert_eq!(decide(&mut covered, 20, false, Some(9)), None, "of no block");
    }

    /// Found by `timeous-lab bloat`: parity that could have brought it waited for a pause in the stream until it was too late.
    #[test]
    fn what_a_block_lacks_is_known_as_soon_as_it_is_lost() {
        let mut covered = Covered::default();
        let id = block(&mut covered);
        covered.end(id, 2);
        assert_eq!(covered.lacks(id), 0, "all of it is under way");
        covered.decide(Seq::new(10), true, Some(0));
        covered.decide(Seq::new(11), false, Some(1));
        covered.decide(Seq::new(12), false, Some(2));
        assert_eq!(covered.lacks(id), 2);
        covered.parity_left(id, Some(Seq::new(13)));
        assert_eq!(covered.lacks(id), 1);
        covered.parity_left(id, Some(Seq::new(14)));
        assert_eq!(covered.lacks(id), 0);
    }

    #[test]
    fn it_is_lost_as_soon_as_nothing_brings_it() {
        let mut covered = Covered::default();
        let id = block(&mut covered);
        covered.end(id, 2);
        covered.parity_left(id, Some(Seq::new(13)));
        for seq in [10, 11] {
            assert_eq!(covered.decide(Seq::new(seq), false, Some(seq - 10)), Some(vec![]));
        }
        assert_eq!(covered.parity_given_up(id), [verdict(0, false), verdict(1, false)], "its deadline has come");
        assert_eq!(covered.decide(Seq::new(12), true, Some(2)), Some(vec![]));
        assert_eq!(covered.decide(Seq::new(13), true, None), Some(vec![]));
        assert!(covered.under_way.is_empty());
    }

    /// Found by `timeous-lab bloat`: a group was given up for a packet that the peer had rebuilt when another came again.
    #[test]
    fn what_comes_again_counts_for_what_was_lost_with_it() {
        let lost = |covered: &mut Covered| {
            let id = block(covered);
            covered.end(id, 1);
            covered.parity_left(id, Some(Seq::new(13)));
            covered.decide(Seq::new(10), false, Some(0));
            let verdicts = covered.decide(Seq::new(11), false, Some(1)).unwrap();
            assert_eq!(verdicts, [verdict(0, false), verdict(1, false)]);
            covered.decide(Seq::new(12), true, Some(2));
            covered.decide(Seq::new(13), true, None);
        };
        let mut covered = Covered::default();
        lost(&mut covered);
        assert_eq!(covered.came_again(Seq::new(20), 7), [], "of no block");
        assert_eq!(covered.came_again(Seq::new(20), 1), [verdict(0, true)]);
        assert!(covered.blocks.is_empty());
        lost(&mut covered);
        assert_eq!(covered.came_again(Seq::new(10 + PEER_MEMORY), 1), [], "the peer has forgotten the rest");
        (0..MAX_BLOCKS as u64 + 9).for_each(|_| lost(&mut covered));
        assert!(covered.blocks.len() <= MAX_BLOCKS);
    }

    #[test]
    fn parity_that_comes_when_the_peer_has_forgotten_brings_nothing() {
        let mut covered = Covered::default();
        let id = block(&mut covered);
        covered.end(id, 1);
        assert_eq!(covered.decide(Seq::new(10), false, Some(0)), Some(vec![]));
        assert_eq!(covered.parity_left(id, Some(Seq::new(10 + PEER_MEMORY))), [verdict(0, false)]);
    }

    #[test]
    fn at_the_end_all_that_was_lost_is() {
        let mut covered = Covered::default();
        block(&mut covered);
        covered.decide(Seq::new(12), false, Some(2));
        assert_eq!(covered.give_up(), [verdict(2, false)]);
        assert!(covered.blocks.is_empty() && covered.under_way.is_empty());
    }
}
