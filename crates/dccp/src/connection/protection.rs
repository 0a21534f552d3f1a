//! Parity state of both halves of a connection.

use std::collections::VecDeque;

use timeous_core::{AduMeta, Instant};

use super::parity::blocks::Block;
use super::parity::covered::{BlockId, Covered};
use super::parity::losses::Losses;
use super::parity::rebuild::Rebuild;
use super::parity::spare_capacity::SpareCapacity;
use super::parity::stake::{Groups, Overhead};
use crate::seq::Seq;

/// Parity packets of a block, encoded and waiting to be sent.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) id: BlockId,
    pub(super) seqs: Vec<Seq>,
    pub(super) of: u8,
    pub(super) shards: VecDeque<Vec<u8>>,
    /// Number of them that have precedence over fresh data.
    pub(super) urgent: usize,
    pub(super) deadline: Instant,
    /// Metadata of the newest ADU of the block.
    pub(super) meta: AduMeta,
}

/// Parity state of the sending and the receiving half.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    /// Open blocks: one of frames that others may refer to, one of the rest.
    pub(super) blocks: [Option<Block>; 2],
    pub(super) ready: VecDeque<Ready>,
    pub(super) covered: Covered,
    pub(super) losses: Losses,
    pub(super) groups: Groups,
    pub(super) overhead: Overhead,
    pub(super) spare: SpareCapacity,
    /// Receiver of parity; `None` until this end has agreed to take parity.
    pub(super) rebuild: Option<Box<Rebuild>>,
}

impl Protection {
    /// Whether no block is open and no parity waits.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.blocks.iter().all(Option::is_none)
    }
}
