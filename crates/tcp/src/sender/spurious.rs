//! Whether a timeout was for nothing: what it took for lost was late (the Eifel detection, RFC 3522).
//!
//! The first acknowledgement after it tells by its timestamp which transmission it answers. If that left before the timeout,
//! all that was under way may still arrive. To send it again would bring every byte twice; and where what a segment carries
//! is chosen anew, what was put there would not arrive, since the peer has what was there at first.

use timeous_core::{Duration, Instant};

use super::phase::Phase;

/// As a timestamp of RFC 7323 tells it.
pub(super) fn millis(at: Instant) -> Duration {
    Duration::from_millis((at - Instant::ZERO).as_millis())
}

/// What is known of a timeout until the first acknowledgement after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Timeout {
    /// There was none, or it has been judged.
    #[default]
    None,
    /// What was to leave again has not left.
    Due,
    /// It left then, the first time if there were several timeouts (`RetransmitTS`).
    Resent(Instant),
}

impl Timeout {
    /// The timer went off. One that goes off during a repair says nothing of what was lost before.
    pub(super) fn went_off(&mut self, phase: Phase) {
        match phase {
            Phase::Open => *self = Self::Due,
            Phase::Recovery { .. } => *self = Self::None,
            // Not the first in a row.
            Phase::Timeout { .. } => {}
        }
    }

    /// Something leaves again.
    pub(super) fn resent(&mut self, now: Instant) {
        if *self == Self::Due {
            *self = Self::Resent(now);
        }
    }

    /// The first acknowledgement of something new: whether the timeout was for nothing. Without an echo nobody knows, and not if
    /// everything has arrived: then all acknowledgements before may have been lost (RFC 3522 §3.2, step 5).
    pub(super) fn was_spurious(&mut self, echo: Option<Duration>, is_all: bool) -> bool {
        match std::mem::take(self) {
            Self::Resent(at) => !is_all && echo.is_some_and(|echo| echo < millis(at)),
            Self::None | Self::Due => false,
        }
    }
}
