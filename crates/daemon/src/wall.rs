//! Wall-clock time, for stored and logged data that outlives the monotonic clock.

use timeous_core::{Duration, Instant};
use timeous_engine::clock;

/// A wall-clock time, in nanoseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(Duration);

impl WallTime {
    /// Creates a time from the duration since the beginning of 1970, UTC.
    pub const fn since_epoch(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Returns the current time of the host's wall clock.
    pub fn now() -> Self {
        Self((clock::now() + clock::unix_offset()) - Instant::ZERO)
    }

    /// Returns the duration since the beginning of 1970, UTC.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// Returns the distance between both times, whichever is later.
    pub const fn apart(self, other: Self) -> Duration {
        self.0.abs_diff(other.0)
    }
}
