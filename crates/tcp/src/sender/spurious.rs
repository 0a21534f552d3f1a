//! Detection of spurious timeouts: delayed segments taken for lost (the Eifel detection, RFC 3522).
//!
//! The timestamp echo of the first acknowledgement after a timeout shows which transmission it answers. If that was sent before the
//! timeout, all segments may still arrive. Retransmitting them would duplicate every byte, and with late choice newly chosen content would
//! be ignored, since the peer has the first version.

use timeous_core::{Duration, Instant};

use super::phase::Phase;

/// Returns a time at the granularity of an RFC 7323 timestamp.
pub(super) fn millis(at: Instant) -> Duration {
    Duration::from_millis((at - Instant::ZERO).as_millis())
}

/// State of a timeout until the first acknowledgement after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Timeout {
    /// No timeout, or it was judged.
    #[default]
    None,
    /// The retransmission was not sent yet.
    Due,
    /// Time of the first retransmission after the first of several timeouts (`RetransmitTS`).
    Resent(Instant),
}

impl Timeout {
    /// Notes a timeout. A timeout during a recovery says nothing of earlier losses.
    pub(super) fn went_off(&mut self, phase: Phase) {
        match phase {
            Phase::Open => *self = Self::Due,
            Phase::Recovery { .. } => *self = Self::None,
            // Not the first in a row.
            Phase::Timeout { .. } => {}
        }
    }

    /// Notes a retransmission.
    pub(super) fn resent(&mut self, now: Instant) {
        if *self == Self::Due {
            *self = Self::Resent(now);
        }
    }

    /// Judges the timeout by the first acknowledgement of new data: returns whether it was spurious. Unknown without an echo, or if
    /// everything is acknowledged: then all earlier acknowledgements may have been lost (RFC 3522 §3.2, step 5).
    pub(super) fn was_spurious(&mut self, echo: Option<Duration>, is_all: bool) -> bool {
        match std::mem::take(self) {
            Self::Resent(at) => !is_all && echo.is_some_and(|echo| echo < millis(at)),
            Self::None | Self::Due => false,
        }
    }
}
