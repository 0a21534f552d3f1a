//! Which blocks a SACK option reports, the most recent first (RFC 2018 §4, RFC 2883).

use std::collections::VecDeque;
use std::ops::Range;

use super::ranges::Ranges;
use crate::segment::{SackBlock, SackBlocks};

/// Islands in the order in which something arrived for them.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// A byte of each, the most recent first.
    islands: VecDeque<u64>,
    /// What came twice, to be told once (RFC 2883 §4).
    duplicate: Option<Range<u64>>,
}

impl Recent {
    /// Something arrived for `island`, one of `islands`.
    pub(super) fn touch(&mut self, island: &Range<u64>, islands: &Ranges) {
        self.islands.retain(|&at| !island.contains(&at) && islands.containing(at).is_some());
        self.islands.push_front(island.start);
        self.islands.truncate(SackBlocks::MAX);
    }

    /// `span` came twice.
    pub(super) fn duplicate(&mut self, span: Range<u64>) {
        self.duplicate = Some(span);
    }

    /// The report left.
    pub(super) fn told(&mut self) {
        self.duplicate = None;
    }

    /// The blocks to report, `room` at most: what came twice and the island that it is part of (RFC 2883 §4), the
    /// islands by recency, then any others. `block` names a stretch by its numbers.
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
