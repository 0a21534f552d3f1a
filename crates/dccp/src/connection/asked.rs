//! How long the handshake took.

use timeous_core::{Duration, Instant};

/// How long the handshake took, if that can be told: of a packet that was repeated nobody knows which one was answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Handshake {
    #[default]
    Begun,
    Asked(Instant),
    AskedAgain,
    Took(Duration),
}

impl Handshake {
    /// The packet that is to be answered leaves.
    pub(super) fn asked(&mut self, now: Instant) {
        *self = if matches!(self, Self::Begun) { Self::Asked(now) } else { Self::AskedAgain };
    }

    /// It was answered.
    pub(super) fn answered(&mut self, now: Instant) {
        if let Self::Asked(at) = *self
            && now > at
        {
            *self = Self::Took(now - at);
        }
    }
}
