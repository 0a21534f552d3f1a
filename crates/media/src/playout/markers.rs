//! End-of-frame detection: by the RTP marker bit (RFC 6184 §5.1) or, where it is missing or wrong, by silence.

use timeous_core::{Duration, Instant};

use super::buffer::Parts;

/// Silence after which a frame counts as complete where markers are unusable: a source sends the packets of a frame
/// together. Chosen by us: a higher value delays each frame; a lower one cuts frames in two.
const QUIET: Duration = Duration::from_millis(20);
/// Consecutive frames without a marker before silence ends a frame, too. Chosen by us: a higher value waits longer
/// before markers count as missing.
const UNMARKED: u32 = 3;

/// Reliability of the sender's marker bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Markers {
    /// Markers have been right so far; number of consecutive frames without one.
    Tell { unmarked: u32 },
    /// Markers stand inside frames, too.
    Lie,
}

impl Default for Markers {
    fn default() -> Self {
        Self::Tell { unmarked: 0 }
    }
}

impl Markers {
    /// Learns from a frame still arriving: a marker before its last packet is wrong.
    pub(super) fn growing(&mut self, parts: &Parts) {
        if parts.has_early_marker() {
            *self = Self::Lie;
        }
    }

    /// Learns from a complete frame.
    pub(super) fn whole(&mut self, parts: &Parts) {
        if let Self::Tell { unmarked } = self {
            *unmarked = if parts.ends_marked() { 0 } else { *unmarked + 1 };
        }
    }

    /// Whether the frame ends with a trusted marker.
    pub(super) fn end(&self, parts: &Parts) -> bool {
        matches!(self, Self::Tell { .. }) && parts.ends_marked()
    }

    /// Instant at which silence ends the frame, where markers are unusable.
    pub(super) fn ends_by_quiet(&self, parts: &Parts) -> Option<Instant> {
        let silent = match *self {
            Self::Lie => true,
            Self::Tell { unmarked } => unmarked >= UNMARKED,
        };
        silent.then(|| parts.last_arrival + QUIET)
    }
}
