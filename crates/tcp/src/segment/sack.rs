//! SACK blocks (RFC 2018 §3).

use std::fmt;

use crate::seq::Seq;

/// Range of received bytes: from `left` up to, not including, `right`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlock {
    /// Sequence number of the first byte.
    pub left: Seq,
    /// Sequence number behind the last byte.
    pub right: Seq,
}

/// The SACK blocks of one header, at most [`MAX`](Self::MAX).
///
/// ```
/// use timeous_tcp::{SackBlock, SackBlocks, Seq};
/// let mut blocks = SackBlocks::default();
/// assert!(blocks.push(SackBlock { left: Seq::new(5), right: Seq::new(9) }));
/// assert_eq!(blocks.len(), 1);
/// assert_eq!(blocks[0].right, Seq::new(9));
/// ```
#[derive(Clone, Copy, Default)]
pub struct SackBlocks {
    blocks: [SackBlock; Self::MAX],
    count: u8,
}

impl SackBlocks {
    /// Maximum number of blocks in one header; three beside a timestamp (RFC 2018 §3).
    pub const MAX: usize = 4;

    /// Appends a block; `false` if there are four already.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(free) = self.blocks.get_mut(usize::from(self.count)) else { return false };
        *free = block;
        self.count += 1;
        true
    }

    /// Keeps the first `count` only.
    pub fn truncate(&mut self, count: usize) {
        self.count = self.count.min(u8::try_from(count).unwrap_or(u8::MAX));
    }
}

impl std::ops::Deref for SackBlocks {
    type Target = [SackBlock];
    fn deref(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.count)]
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// Takes the first four blocks.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> Self {
        let mut taken = Self::default();
        for block in blocks.into_iter().take(Self::MAX) {
            taken.push(block);
        }
        taken
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for SackBlocks {}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
