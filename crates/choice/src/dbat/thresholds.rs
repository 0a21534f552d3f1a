//! The two thresholds of a stream's send buffer, and what a queue is beside them (Hasan et al. §3.2, Fig. 4).

use timeous_core::{Duration, PathState, Rate};

/// Which delay a stream's rate is multiplied by. The paper says "the delay".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// The least round trip seen: the path's own, without what its queues add. With those, the thresholds would grow
    /// with the very congestion that they are to tell of.
    RoundTrip,
    /// Half of it.
    OneWay,
    /// This one, whatever the path has.
    Fixed(Duration),
}

impl Delay {
    /// Of this path; `None` before its first round trip.
    pub(super) fn of(self, path: &PathState) -> Option<Duration> {
        let round_trip = path.min_rtt.or(path.srtt);
        match self {
            Self::RoundTrip => round_trip,
            Self::OneWay => round_trip.map(|round_trip| round_trip / 2),
            Self::Fixed(delay) => Some(delay),
        }
    }
}

/// `Min_Th` and `Max_Th`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Thresholds {
    /// What the stream hands over within the delay.
    pub min: u64,
    /// Twice as much.
    pub max: u64,
}

impl Thresholds {
    /// Of a stream of this rate on a path of this delay; `least` is the smallest `Min_Th` there may be.
    ///
    /// ```
    /// use timeous_choice::dbat::Thresholds;
    /// use timeous_core::{Duration, Rate};
    /// let thresholds = Thresholds::of(Rate::from_kbps(320), Duration::from_millis(150), 0);
    /// assert_eq!((thresholds.min, thresholds.middle(), thresholds.max), (6_000, 9_000, 12_000));
    /// ```
    #[must_use]
    pub fn of(rate: Rate, delay: Duration, least: u64) -> Self {
        let min = rate.bytes_in(delay).max(least);
        Self { min, max: min.saturating_mul(2) }
    }

    /// Halfway between both: beyond it the source is told.
    #[must_use]
    pub const fn middle(self) -> u64 {
        self.min + (self.max - self.min) / 2
    }

    /// What an average of so many bytes is.
    pub(super) const fn level(self, average: u64) -> Level {
        if average > self.max {
            Level::Overfull
        } else if average > self.middle() {
            Level::Filling
        } else if average >= self.min {
            Level::Fair
        } else {
            Level::Low
        }
    }
}

/// What the average queue is beside the thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// There are none: the stream's rate or the path's delay is not known yet.
    Unknown,
    /// Below `Min_Th`.
    Low,
    /// From `Min_Th` to the middle.
    Fair,
    /// Beyond the middle: the source is told.
    Filling,
    /// Beyond `Max_Th`: only what is marked goes.
    Overfull,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_begins_just_beyond_its_threshold() {
        let thresholds = Thresholds { min: 6_000, max: 12_000 };
        let levels = [5_999, 6_000, 9_000, 9_001, 12_000, 12_001].map(|average| thresholds.level(average));
        use Level::{Fair, Filling, Low, Overfull};
        assert_eq!(levels, [Low, Fair, Fair, Filling, Filling, Overfull]);
    }

    #[test]
    fn nothing_overflows() {
        let thresholds = Thresholds::of(Rate::MAX, Duration::MAX, 0);
        assert_eq!((thresholds.min, thresholds.max, thresholds.middle()), (u64::MAX, u64::MAX, u64::MAX));
    }

    #[test]
    fn the_delay_is_the_paths_own() {
        let [least, smoothed] = [150, 400].map(|millis| Some(Duration::from_millis(millis)));
        let path = PathState { srtt: smoothed, min_rtt: least, ..PathState::default() };
        assert_eq!(Delay::RoundTrip.of(&path), least);
        assert_eq!(Delay::OneWay.of(&path), Some(Duration::from_millis(75)));
        assert_eq!(Delay::RoundTrip.of(&PathState { min_rtt: None, ..path }), smoothed);
        assert_eq!(Delay::OneWay.of(&PathState::default()), None);
        assert_eq!(Delay::Fixed(Duration::ZERO).of(&PathState::default()), Some(Duration::ZERO));
    }
}
