//! Time as options carry it.

use timeous_core::{Duration, Instant};

/// Time as DCCP's options count it: in units of 10 microseconds, 32 bits (RFC 4340 §13).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks(u32);

const NANOS_PER_TICK: u64 = 10_000;

impl Ticks {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// This many units of 10 microseconds.
    pub const fn new(ticks: u32) -> Self {
        Self(ticks)
    }

    /// The number of units.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// An elapsed time, rounded down; what is longer than 42949.67294 s becomes the greatest value (§13.2).
    pub fn elapsed(time: Duration) -> Self {
        Self(u32::try_from(time.as_nanos() / NANOS_PER_TICK).unwrap_or(u32::MAX))
    }

    /// A Timestamp Value of `now`; it wraps every 11.9 hours (§13.1).
    pub fn timestamp(now: Instant) -> Self {
        Self((now.as_nanos() / NANOS_PER_TICK) as u32)
    }

    /// As a length of time.
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0 as u64 * NANOS_PER_TICK)
    }

    /// How much later than `earlier` this timestamp is, if less than one wrap.
    pub const fn since(self, earlier: Self) -> Duration {
        Self(self.0.wrapping_sub(earlier.0)).to_duration()
    }
}
