//! Where a packet went, step by step.

use timeous_core::Instant;

use super::topology::{LinkId, NodeId};
use crate::link::DropCause;

/// A step of a packet's journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// When.
    pub at: Instant,
    /// The packet's [`id`](super::Packet::id).
    pub packet: u64,
    /// What happened to it.
    pub what: Passage,
}

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// A host sent it.
    Sent(NodeId),
    /// It was handed to a link.
    Entered(LinkId),
    /// The link dropped or lost it.
    Dropped(LinkId, DropCause),
    /// It reached the far end of the link.
    Left(LinkId),
    /// It reached the host to which it is addressed.
    Delivered(NodeId),
    /// The node knows no way to where it is addressed.
    Unroutable(NodeId),
    /// It had been passed on too often when it came to this router.
    Expired(NodeId),
}
