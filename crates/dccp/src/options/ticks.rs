//! Time values in options.

use timeous_core::{Duration, Instant};

/// Time in units of 10 microseconds, 32 bits (RFC 4340 §13).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks(u32);

/// Duration of a tick, in nanoseconds: 10 microseconds (RFC 4340 §13).
const NANOS_PER_TICK: u64 = 10_000;

impl Ticks {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Creates a value from a number of units.
    pub const fn new(ticks: u32) -> Self {
        Self(ticks)
    }

    /// Number of units.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// Encodes an elapsed time, rounded down and capped at 42949.67295 s (§13.2).
    pub fn elapsed(time: Duration) -> Self {
        Self(u32::try_from(time.as_nanos() / NANOS_PER_TICK).unwrap_or(u32::MAX))
    }

    /// Encodes the Timestamp Value of `now`; it wraps every 11.9 hours (§13.1).
    pub fn timestamp(now: Instant) -> Self {
        Self((now.as_nanos() / NANOS_PER_TICK) as u32)
    }

    /// Converts to a duration.
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0 as u64 * NANOS_PER_TICK)
    }

    /// Time from `earlier` to this timestamp, if less than one wrap.
    pub const fn since(self, earlier: Self) -> Duration {
        Self(self.0.wrapping_sub(earlier.0)).to_duration()
    }
}
