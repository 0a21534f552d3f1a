//! Where frames end, if their markers tell (RFC 6184 §5.1), and if they do not.

use timeous_core::{Duration, Instant};

use super::buffer::Parts;

/// Where markers do not tell, a frame is taken for whole after so long without another packet: packets of one frame
/// leave a source together.
const QUIET: Duration = Duration::from_millis(20);
/// Frames that ended without a marker before markers are waited for no longer.
const UNMARKED: u32 = 3;

/// Whether markers say where frames end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Markers {
    /// They do, as far as one can tell; so many frames in a row had none.
    Tell { unmarked: u32 },
    /// They stand where no frame ends.
    Lie,
}

impl Default for Markers {
    fn default() -> Self {
        Self::Tell { unmarked: 0 }
    }
}

impl Markers {
    /// Learns from a frame that goes on: a marker before its end is a lie.
    pub(super) fn growing(&mut self, parts: &Parts) {
        if parts.has_early_marker() {
            *self = Self::Lie;
        }
    }

    /// Learns from a frame that was whole.
    pub(super) fn whole(&mut self, parts: &Parts) {
        if let Self::Tell { unmarked } = self {
            *unmarked = if parts.ends_marked() { 0 } else { *unmarked + 1 };
        }
    }

    /// Whether the frame ends with a marker that can be believed.
    pub(super) fn end(&self, parts: &Parts) -> bool {
        matches!(self, Self::Tell { .. }) && parts.ends_marked()
    }

    /// Where markers do not tell: when a frame has ended if nothing more comes.
    pub(super) fn ends_by_quiet(&self, parts: &Parts) -> Option<Instant> {
        let silent = match *self {
            Self::Lie => true,
            Self::Tell { unmarked } => unmarked >= UNMARKED,
        };
        silent.then(|| parts.last_arrival + QUIET)
    }
}
