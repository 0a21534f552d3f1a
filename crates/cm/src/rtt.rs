//! The round-trip time of a path: smoothed, its deviation, its minimum (RFC 6298 §2).

use timeous_core::Duration;

/// Estimates the round-trip time and the retransmission timeout from samples.
///
/// ```
/// use timeous_cm::RttEstimator;
/// use timeous_core::Duration;
/// let mut rtt = RttEstimator::default();
/// assert_eq!(rtt.timeout(), Duration::from_secs(1));
/// rtt.sample(Duration::from_millis(400));
/// assert_eq!(rtt.smoothed(), Some(Duration::from_millis(400)));
/// assert_eq!(rtt.timeout(), Duration::from_millis(1200));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimator {
    state: Option<State>,
    /// The state is another connection's, and so old that the first sample replaces it.
    remembered: bool,
}

/// What is remembered of a path's round trips.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) smoothed: Duration,
    pub(crate) deviation: Duration,
    pub(crate) min: Duration,
}

#[derive(Clone, Copy, Debug)]
struct State {
    smoothed: Duration,
    deviation: Duration,
    min: Duration,
    latest: Duration,
}

impl RttEstimator {
    /// The initial timeout (RFC 6298 §2.1).
    pub const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
    /// The least that the timeout is longer than the smoothed round trip. RFC 6298 §2.4 wants a second in all and lets
    /// implementations go lower; this is what Linux does, since a second is longer than most deadlines. On a path whose
    /// round trips hardly vary it leaves room for an acknowledgement that the peer delays.
    pub const MIN_MARGIN: Duration = Duration::from_millis(200);

    /// Reckons with what is known from before, until there is a sample.
    pub(crate) fn remembering(known: Known) -> Self {
        let Known { smoothed, deviation, min } = known;
        Self { state: Some(State { smoothed, deviation, min, latest: smoothed }), remembered: true }
    }

    /// Takes in a sample.
    pub fn sample(&mut self, rtt: Duration) {
        let known = self.state.filter(|_| !std::mem::take(&mut self.remembered));
        self.state = Some(match known {
            None => State { smoothed: rtt, deviation: rtt / 2, min: rtt, latest: rtt },
            Some(old) => State {
                deviation: (old.deviation * 3 + old.smoothed.abs_diff(rtt)) / 4,
                smoothed: (old.smoothed * 7 + rtt) / 8,
                min: old.min.min(rtt),
                latest: rtt,
            },
        });
    }

    /// The smoothed round-trip time.
    pub fn smoothed(&self) -> Option<Duration> {
        self.state.map(|s| s.smoothed)
    }

    /// The mean deviation.
    pub fn deviation(&self) -> Duration {
        self.state.map_or(Duration::ZERO, |s| s.deviation)
    }

    /// The smallest sample.
    pub fn min(&self) -> Option<Duration> {
        self.state.map(|s| s.min)
    }

    /// The latest sample.
    pub fn latest(&self) -> Option<Duration> {
        self.state.map(|s| s.latest)
    }

    /// The retransmission timeout before any backoff.
    pub fn timeout(&self) -> Duration {
        self.state.map_or(Self::INITIAL_TIMEOUT, |s| s.smoothed + (s.deviation * 4).max(Self::MIN_MARGIN))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_rfc_6298_section_2() {
        let mut rtt = RttEstimator::default();
        rtt.sample(Duration::from_millis(100));
        rtt.sample(Duration::from_millis(180));
        assert_eq!(rtt.smoothed(), Some(Duration::from_millis(110)));
        // RTTVAR = 3/4 × 50 + 1/4 × |100 − 180|
        assert_eq!(rtt.deviation(), Duration::from_micros(57_500));
        assert_eq!(rtt.timeout(), Duration::from_millis(340));
        assert_eq!(rtt.min(), Some(Duration::from_millis(100)));
    }

    #[test]
    fn round_trips_that_hardly_vary_leave_room_for_a_delayed_acknowledgement() {
        let mut rtt = RttEstimator::default();
        for _ in 0..50 {
            rtt.sample(Duration::from_millis(300));
        }
        assert_eq!(rtt.timeout(), Duration::from_millis(500));
    }
}
