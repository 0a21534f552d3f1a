//! Round-trip time of the handshake.

use timeous_core::{Duration, Instant};

/// Measurement of the handshake's round-trip time; ambiguous if a packet was retransmitted (Karn's algorithm).
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Handshake {
    #[default]
    Begun,
    Asked(Instant),
    AskedAgain,
    Took(Duration),
}

impl Handshake {
    /// Notes that the packet to be answered leaves.
    pub(super) fn asked(&mut self, now: Instant) {
        *self = if matches!(self, Self::Begun) { Self::Asked(now) } else { Self::AskedAgain };
    }

    /// Notes that the answer has arrived.
    pub(super) fn answered(&mut self, now: Instant) {
        if let Self::Asked(at) = *self
            && now > at
        {
            *self = Self::Took(now - at);
        }
    }
}
