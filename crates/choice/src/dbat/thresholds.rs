//! Thresholds of a send buffer: the delay that they are based on, and the level of a queue (Hasan et al. §3.2, Fig. 4).

use timeous_core::{Duration, PathState, Reason, Thresholds};

/// Delay by which a stream's rate is multiplied. The paper says "the delay".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delay {
    /// Minimum RTT, without the delay of the path's queues: with it, the thresholds would grow with the congestion that
    /// they must detect.
    RoundTrip,
    /// Half of the minimum RTT.
    OneWay,
    /// Fixed delay, independent of the path.
    Fixed(Duration),
}

impl Delay {
    /// Delay of this path; `None` before its first RTT sample.
    pub(super) fn of(self, path: &PathState) -> Option<Duration> {
        let round_trip = path.min_rtt.or(path.srtt);
        match self {
            Self::RoundTrip => round_trip,
            Self::OneWay => round_trip.map(|round_trip| round_trip / 2),
            Self::Fixed(delay) => Some(delay),
        }
    }
}

/// Level of the average queue length relative to the thresholds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// No thresholds: the stream's rate or the path's delay is not known yet.
    Unknown,
    /// Below `Min_Th`.
    Low,
    /// From `Min_Th` to the midpoint.
    Fair,
    /// Above the midpoint: the source is told.
    Filling,
    /// Above `Max_Th`: only marked packets are sent.
    Overfull,
}

impl Level {
    /// Level of a queue with this average.
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

    /// Reason for telling the source, if any.
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
