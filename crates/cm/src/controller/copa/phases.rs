//! What Copa may be in the middle of.

use timeous_core::Instant;

/// The window doubles each round trip, until something waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start {
    /// Where it ends at the latest.
    pub(super) threshold: Option<f64>,
    pub(super) in_a_row: u32,
}

/// Nothing is heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// The window when it is over.
    pub(super) then: f64,
    /// Timeouts, one after the other.
    pub(super) timeouts: u32,
}

/// Its own packets are being taken out of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) until: Instant,
    /// The window afterwards.
    pub(super) then: f64,
}
