//! Limits on sending that the receiver asks for, beside congestion control (RFC 4340 §11.6, §11.7.2).

use timeous_core::Instant;

/// Sending limits due to the receiver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Restraint {
    /// End of the period without growth, after a Slow Receiver option.
    pub(super) level_until: Option<Instant>,
    /// Whether the peer's application no longer reads.
    pub(super) peer_is_deaf: bool,
    /// Whether the peer refused data with partial checksum coverage: cover all from now on.
    pub(super) covers_all: bool,
}

impl Restraint {
    /// Whether the congestion window must not grow now.
    pub(super) fn is_level(&self, now: Instant) -> bool {
        self.level_until.is_some_and(|until| now < until)
    }
}
