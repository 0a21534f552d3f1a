//! SACK blocks of an incoming segment (RFC 2018, RFC 2883), in stream offsets.

use std::ops::Range;

use crate::segment::SackBlocks;
use crate::seq::Seq;

/// SACK blocks within the range that was sent and is not acknowledged.
#[derive(Debug, Default)]
pub(super) struct SackedRanges {
    ranges: [Range<u64>; 4],
    count: usize,
    /// The first block, if it reports duplicate data (RFC 2883 §4).
    pub(super) dsack: Option<Range<u64>>,
}

impl SackedRanges {
    /// Takes the blocks of a segment that acknowledges `ack`; `nxt` is SND.NXT, `offset` the stream offset of a number.
    pub(super) fn new(sack: &SackBlocks, ack: u64, nxt: u64, offset: impl Fn(Seq) -> i64) -> Self {
        let mut blocks = Self::default();
        let range = |at: usize| sack.get(at).map(|block| offset(block.left)..offset(block.right));
        for at in 0..sack.len() {
            let Some(block) = range(at).filter(|block| block.start < block.end) else { continue };
            let is_duplicate = at == 0
                && (block.end <= ack as i64
                    || range(1).is_some_and(|second| second.start <= block.start && block.end <= second.end));
            if is_duplicate {
                blocks.dsack = Some(block.start.max(0) as u64..block.end.max(0) as u64);
            } else if block.start >= ack as i64 && block.end <= nxt as i64 {
                blocks.ranges[blocks.count] = block.start as u64..block.end as u64;
                blocks.count += 1;
            }
        }
        blocks
    }

    /// Returns the ranges that have arrived.
    pub(super) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges[..self.count]
    }
}
