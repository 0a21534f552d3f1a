//! Time as calendars have it: what is remembered and logged outlives the monotonic clock.

use timeous_core::{Duration, Instant};
use timeous_engine::clock;

/// A point in time on the wall clock, in nanoseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct WallTime(Duration);

impl WallTime {
    /// So long after the beginning of 1970, UTC.
    pub const fn since_epoch(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// What the host's clock shows.
    pub fn now() -> Self {
        Self((clock::now() + clock::unix_offset()) - Instant::ZERO)
    }

    /// How long after the beginning of 1970, UTC.
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// How far apart the two are, whichever is later.
    pub const fn apart(self, other: Self) -> Duration {
        self.0.abs_diff(other.0)
    }
}
