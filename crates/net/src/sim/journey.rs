//! Journey of a packet through the network, step by step.

use timeous_core::Instant;

use super::topology::{LinkId, NodeId};
use crate::link::DropCause;

/// A step of a packet's journey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Time of the step.
    pub at: Instant,
    /// The packet's [`id`](super::Packet::id).
    pub packet: u64,
    /// Event of the step.
    pub what: Passage,
}

/// Event in the journey of a packet.
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
    /// The node has no route to its destination.
    Unroutable(NodeId),
    /// It exceeded the hop limit at this router.
    Expired(NodeId),
}
