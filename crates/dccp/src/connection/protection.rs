//! What both ends hold for parity.

use std::collections::VecDeque;

use timeous_core::Instant;

use super::parity::blocks::Block;
use super::parity::losses::Losses;
use super::parity::rebuild::Rebuild;
use crate::seq::Seq;

/// Parity that waits to leave.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) seqs: Vec<Seq>,
    pub(super) of: u8,
    pub(super) shards: VecDeque<Vec<u8>>,
    pub(super) deadline: Instant,
}

/// Both ends' part.
#[derive(Clone, Debug, Default)]
pub(super) struct Protection {
    pub(super) block: Option<Block>,
    pub(super) ready: VecDeque<Ready>,
    pub(super) losses: Losses,
    /// Once the peer has been told that we take parity.
    pub(super) rebuild: Option<Box<Rebuild>>,
}
