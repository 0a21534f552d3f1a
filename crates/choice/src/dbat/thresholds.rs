//! Which delay the thresholds of a send buffer come from, and what a queue is beside them (Hasan et al. §3.2, Fig. 4).

use timeous_core::{Duration, PathState, Reason, Thresholds};

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

impl Level {
    /// Of a queue with this average.
    pub(super) const fn of(average: u64, thresholds: Thresholds) -> Self {
        if average > thresholds.max {
            Self::Overfull
        } else if average > thresholds.middle() {
            Self::Filling
        } else if average >= thresholds.min {
            Self::Fair
        } else {
            Self::Low
        }
    }

    /// Why the source is told, if it is.
    pub(super) const fn reason(self) -> Option<Reason> {
        match self {
            Self::Overfull => Some(Reason::Overfull),
            Self::Filling => Some(Reason::Filling),
            Self::Low => Some(Reason::Room),
            Self::Fair | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_begins_just_beyond_its_threshold() {
        let thresholds = Thresholds { min: 6_000, max: 12_000 };
        let levels = [5_999, 6_000, 9_000, 9_001, 12_000, 12_001].map(|average| Level::of(average, thresholds));
        use Level::{Fair, Filling, Low, Overfull};
        assert_eq!(levels, [Low, Fair, Fair, Filling, Filling, Overfull]);
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
