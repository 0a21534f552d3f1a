//! Late choice: what runs over the queue at the instant of sending.

use timeous_core::{Instant, PathState, Queue};

/// A choice made at the instant at which a packet may leave.
pub trait LateChoice: Send {
    /// Looks over what is queued, oldest first, and gives up what should not be sent. `path` is what the transport
    /// knows at this instant.
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue);
}

/// Sends everything in the order of the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

impl LateChoice for KeepAll {
    fn choose(&mut self, _: Instant, _: &PathState, _: &mut dyn Queue) {}
}
