//! Types for time and rates: [`Instant`], whose zero the driver chooses, [`Duration`] and [`Rate`].

use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub, SubAssign};

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Point in time, in nanoseconds since a zero that the driver chooses.
///
/// The engine uses the host's boot (`CLOCK_MONOTONIC`), so that all processes of a host agree; a simulation starts at
/// [`Instant::ZERO`].
///
/// ```
/// use timeous_core::{Duration, Instant};
/// let t = Instant::ZERO + Duration::from_millis(5);
/// assert_eq!(t - Instant::ZERO, Duration::from_micros(5_000));
/// assert_eq!(Instant::ZERO - t, Duration::ZERO, "a difference never goes below zero");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(u64);

impl Instant {
    /// Zero of the driver's clock.
    pub const ZERO: Self = Self(0);
    /// Later than any event.
    pub const FAR_FUTURE: Self = Self(u64::MAX);

    /// Creates the instant `nanos` nanoseconds after zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Nanoseconds since zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Time since `earlier`, or zero if that is later.
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Time since `earlier`, or `None` if that is later.
    pub fn checked_since(self, earlier: Self) -> Option<Duration> {
        self.0.checked_sub(earlier.0).map(Duration)
    }

    /// This instant moved back, not before zero.
    pub const fn saturating_sub(self, by: Duration) -> Self {
        Self(self.0.saturating_sub(by.0))
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{:?}", Duration(self.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, by: Duration) {
        *self = *self + by;
    }
}

impl Sub<Instant> for Instant {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

/// Length of time, in nanoseconds. Arithmetic saturates.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Duration(u64);

impl Duration {
    /// Zero duration.
    pub const ZERO: Self = Self(0);
    /// Maximum duration.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a duration of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates a duration of `micros` microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// Creates a duration of `millis` milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// Creates a duration of `secs` seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(NANOS_PER_SEC))
    }

    /// A duration of `secs` seconds; negative values and NaN become zero.
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * NANOS_PER_SEC as f64) as u64)
    }

    /// Length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Length in whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Length in whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// Length in seconds.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SEC as f64
    }

    /// Difference, not below zero.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// Absolute difference of two durations.
    pub const fn abs_diff(self, other: Self) -> Self {
        Self(self.0.abs_diff(other.0))
    }

    /// Whether the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&std::time::Duration::from_nanos(self.0), f)
    }
}

impl From<std::time::Duration> for Duration {
    fn from(d: std::time::Duration) -> Self {
        Self(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Duration> for std::time::Duration {
    fn from(d: Duration) -> Self {
        Self::from_nanos(d.0)
    }
}

impl Add for Duration {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Duration {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Duration {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self.saturating_sub(other)
    }
}

impl SubAssign for Duration {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Mul<u64> for Duration {
    type Output = Self;
    fn mul(self, by: u64) -> Self {
        Self(self.0.saturating_mul(by))
    }
}

impl Div<u64> for Duration {
    type Output = Self;
    fn div(self, by: u64) -> Self {
        Self(self.0 / by)
    }
}

/// Data rate, in bits per second.
///
/// ```
/// use timeous_core::{Duration, Rate};
/// let link = Rate::from_kbps(400);
/// assert_eq!(link.time_for(1_000), Duration::from_millis(20));
/// assert_eq!(link.bytes_in(Duration::from_secs(2)), 100_000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// Zero rate.
    pub const ZERO: Self = Self(0);
    /// Unlimited rate.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates a rate of `bps` bits per second.
    pub const fn from_bps(bps: u64) -> Self {
        Self(bps)
    }

    /// Creates a rate of `kbps` thousand bits per second.
    pub const fn from_kbps(kbps: u64) -> Self {
        Self(kbps.saturating_mul(1_000))
    }

    /// The rate that carries `bytes` in `time`; [`Rate::MAX`] for a time of zero.
    pub fn from_bytes_in(bytes: u64, time: Duration) -> Self {
        share_of_bits(bytes, time.0).map_or(Self::MAX, Self)
    }

    /// Rate in bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Transmission time of `bytes` at this rate; [`Duration::MAX`] at rate zero.
    pub fn time_for(self, bytes: u64) -> Duration {
        share_of_bits(bytes, self.0).map_or(Duration::MAX, Duration)
    }

    /// Whole bytes transmitted in `time`.
    pub fn bytes_in(self, time: Duration) -> u64 {
        let bytes = u128::from(self.0) * u128::from(time.0) / (8 * u128::from(NANOS_PER_SEC));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// Bits in `bytes` times nanoseconds per second, divided by `by`, saturating. `None` for a division by zero.
fn share_of_bits(bytes: u64, by: u64) -> Option<u64> {
    // Called for each packet, with values that rarely need the long division.
    if let Some(bits) = bytes.checked_mul(8 * NANOS_PER_SEC) {
        return bits.checked_div(by);
    }
    let bits = u128::from(bytes) * 8 * u128::from(NANOS_PER_SEC);
    bits.checked_div(u128::from(by)).map(|share| u64::try_from(share).unwrap_or(u64::MAX))
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bps @ 0..1_000 => write!(f, "{bps} bit/s"),
            bps @ 1_000..1_000_000 => write!(f, "{:.1} kbit/s", bps as f64 / 1e3),
            bps => write!(f, "{:.2} Mbit/s", bps as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_and_its_inverse_agree() {
        let rate = Rate::from_kbps(1_500);
        let time = rate.time_for(1_234_567);
        assert!(rate.bytes_in(time).abs_diff(1_234_567) <= 1);
        assert_eq!(Rate::from_bytes_in(1_234_567, time).as_bps().abs_diff(1_500_000) / 10, 0);
    }

    #[test]
    fn rate_zero_never_finishes_and_nothing_overflows() {
        assert_eq!(Rate::ZERO.time_for(1), Duration::MAX);
        assert_eq!(Rate::from_bytes_in(5, Duration::ZERO), Rate::MAX);
        assert_eq!(Rate::MAX.bytes_in(Duration::MAX), u64::MAX);
        assert_eq!(Instant::FAR_FUTURE + Duration::MAX, Instant::FAR_FUTURE);
    }

    #[test]
    fn what_takes_the_long_division_goes_on_where_the_short_one_ends() {
        let last = u64::MAX / (8 * NANOS_PER_SEC);
        let rate = Rate::from_bps(1 << 40);
        let step = rate.time_for(last + 1).saturating_sub(rate.time_for(last));
        assert!(step <= Duration::from_nanos(1));
        assert_eq!(rate.time_for(1 << 40), Duration::from_secs(8));
        assert_eq!(Rate::from_bytes_in(1 << 40, Duration::from_secs(8)), rate);
    }

    #[test]
    fn durations_from_odd_floats_are_zero() {
        assert_eq!(Duration::from_secs_f64(-1.0), Duration::ZERO);
        assert_eq!(Duration::from_secs_f64(f64::NAN), Duration::ZERO);
    }
}
