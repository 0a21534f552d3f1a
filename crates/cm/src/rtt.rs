//! RTT estimator: smoothed RTT, deviation and minimum (RFC 6298 §2).

use timeous_core::Duration;

/// Estimator of RTT and retransmission timeout.
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
    /// The state is from an earlier connection, so that the first sample replaces it.
    remembered: bool,
}

/// Remembered RTT state of a path.
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
    /// Initial retransmission timeout (RFC 6298 §2.1).
    pub const INITIAL_TIMEOUT: Duration = Duration::from_secs(1);
    /// Minimum by which the timeout exceeds the smoothed RTT. RFC 6298 §2.4 wants a timeout of a second and allows
    /// less; this is Linux's value, since a second is longer than most deadlines. On a path of constant RTT it leaves
    /// room for a delayed acknowledgement.
    pub const MIN_MARGIN: Duration = Duration::from_millis(200);

    /// Creates an estimator with remembered values, which the first sample replaces.
    pub(crate) fn remembering(known: Known) -> Self {
        let Known { smoothed, deviation, min } = known;
        Self { state: Some(State { smoothed, deviation, min, latest: smoothed }), remembered: true }
    }

    /// Processes an RTT sample.
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

    /// Takes the latest RTT for the minimum, since the path is another.
    pub(crate) fn forget_min(&mut self) {
        if let Some(state) = &mut self.state {
            state.min = state.latest;
        }
    }

    /// Smoothed RTT.
    pub fn smoothed(&self) -> Option<Duration> {
        self.state.map(|s| s.smoothed)
    }

    /// Mean deviation of the RTT.
    pub fn deviation(&self) -> Duration {
        self.state.map_or(Duration::ZERO, |s| s.deviation)
    }

    /// Minimum RTT.
    pub fn min(&self) -> Option<Duration> {
        self.state.map(|s| s.min)
    }

    /// Latest RTT sample.
    pub fn latest(&self) -> Option<Duration> {
        self.state.map(|s| s.latest)
    }

    /// Retransmission timeout before any backoff.
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
