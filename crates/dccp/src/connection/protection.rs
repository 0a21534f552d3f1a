//! What both ends hold for parity.

use std::collections::VecDeque;

use timeous_core::{AduMeta, Instant};

use super::parity::blocks::Block;
use super::parity::covered::{BlockId, Covered};
use super::parity::losses::Losses;
use super::parity::rebuild::Rebuild;
use super::parity::spare::Spare;
use super::parity::stake::{Groups, Overhead};
use crate::seq::Seq;

/// Parity that waits to leave.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) id: BlockId,
    pub(super) seqs: Vec<Seq>,
    pub(super) of: u8,
    pub(super) shards: VecDeque<Vec<u8>>,
    /// So many of them are worth more than what is fresh.
    pub(super) urgent: usize,
    pub(super) deadline: Instant,
    /// The newest of the data that it is for.
    pub(super) meta: AduMeta,
}

/// Both ends' part.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    /// Blocks that grow: of what others may refer to, and of the rest.
    pub(super) blocks: [Option<Block>; 2],
    pub(super) ready: VecDeque<Ready>,
    pub(super) covered: Covered,
    pub(super) losses: Losses,
    pub(super) groups: Groups,
    pub(super) overhead: Overhead,
    pub(super) spare: Spare,
    /// Once the peer has been told that we take parity.
    pub(super) rebuild: Option<Box<Rebuild>>,
}

impl Protection {
    /// Whether nothing is or will be waiting.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.blocks.iter().all(Option::is_none)
    }
}
