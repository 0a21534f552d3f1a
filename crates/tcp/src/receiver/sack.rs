//! Selection of SACK blocks, the most recent first (RFC 2018 §4, RFC 2883).

use std::collections::VecDeque;
use std::ops::Range;

use super::ranges::Ranges;
use crate::segment::{SackBlock, SackBlocks};

/// Islands by the time of their last arrival.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// One offset of each island, the most recent first.
    islands: VecDeque<u64>,
    /// Duplicate range, to be reported once (RFC 2883 §4).
    duplicate: Option<Range<u64>>,
}

impl Recent {
    /// Notes an arrival for `island`, one of `islands`.
    pub(super) fn touch(&mut self, island: &Range<u64>, islands: &Ranges) {
        self.islands.retain(|&at| !island.contains(&at) && islands.containing(at).is_some());
        self.islands.push_front(island.start);
        self.islands.truncate(SackBlocks::MAX);
    }

    /// Notes a duplicate range.
    pub(super) fn duplicate(&mut self, span: Range<u64>) {
        self.duplicate = Some(span);
    }

    /// Notes that the report was sent.
    pub(super) fn told(&mut self) {
        self.duplicate = None;
    }

    /// Returns the blocks to report, at most `room`: the duplicate range and its island (RFC 2883 §4), islands by
    /// recency, then any others. `block` converts a range to sequence numbers.
    pub(super) fn blocks(&self, islands: &Ranges, room: usize, block: impl Fn(Range<u64>) -> SackBlock) -> SackBlocks {
        let mut blocks: SackBlocks = self.duplicate.clone().map(&block).into_iter().collect();
        let first_island = blocks.len();
        let around = self.duplicate.iter().map(|span| span.start);
        let recent = around.chain(self.islands.iter().copied()).filter_map(|at| islands.containing(at));
        for island in recent.chain(islands.iter().take(SackBlocks::MAX)).map(&block) {
            if !blocks[first_island..].contains(&island) {
                blocks.push(island);
            }
        }
        blocks.truncate(room);
        blocks
    }
}
