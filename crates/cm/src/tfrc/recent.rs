//! X_recv_set: receive rates of the last two round trips (RFC 5348 §4.3, §8.2.2).

use timeous_core::{Duration, Instant};

/// Maximum number of rates: two from successive feedback and one from a loss event (RFC 5348 §8.2.2).
const MAX_RATES: usize = 3;

/// Receive rates in bytes per second, with the times of their reports. Never empty: initially there is an infinite one.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveRates(Vec<(Instant, f64)>);

impl ReceiveRates {
    /// Creates the set with an infinite rate, which limits nothing for two round trips from `now`.
    pub(crate) fn new(now: Instant) -> Self {
        Self(vec![(now, f64::INFINITY)])
    }

    pub(crate) fn max(&self) -> f64 {
        self.0.iter().map(|&(_, rate)| rate).fold(0.0, f64::max)
    }

    /// `Update X_recv_set()`.
    pub(crate) fn update(&mut self, now: Instant, rate: f64, rtt: Duration) {
        self.0.push((now, rate));
        self.0.retain(|&(at, _)| now.saturating_since(at) <= rtt * 2);
        let surplus = self.0.len().saturating_sub(MAX_RATES);
        self.0.drain(..surplus);
    }

    /// `Maximize X_recv_set()`.
    pub(crate) fn maximize(&mut self, now: Instant, rate: f64) {
        let finite = self.0.iter().map(|&(_, rate)| rate).filter(|rate| rate.is_finite());
        let max = finite.fold(rate, f64::max);
        self.only(now, max);
    }

    pub(crate) fn halve(&mut self) {
        for (_, rate) in &mut self.0 {
            *rate /= 2.0;
        }
    }

    /// Replaces all rates by this one.
    pub(crate) fn only(&mut self, now: Instant, rate: f64) {
        self.0.clear();
        self.0.push((now, rate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn rates(set: &ReceiveRates) -> Vec<f64> {
        set.0.iter().map(|&(_, rate)| rate).collect()
    }

    #[test]
    fn nothing_limits_for_two_round_trips() {
        let mut set = ReceiveRates::new(at(0));
        set.update(at(200), 10.0, RTT);
        assert_eq!(set.max(), f64::INFINITY);
        set.update(at(201), 12.0, RTT);
        assert_eq!(rates(&set), [10.0, 12.0]);
    }

    #[test]
    fn an_update_keeps_two_round_trips_and_three_rates() {
        let mut set = ReceiveRates::new(at(0));
        for (millis, rate) in [(300, 9.0), (400, 3.0), (450, 4.0), (500, 5.0)] {
            set.update(at(millis), rate, RTT);
        }
        assert_eq!(rates(&set), [3.0, 4.0, 5.0], "300 ms is two round trips ago, but the fourth");
        set.update(at(650), 1.0, RTT);
        assert_eq!(rates(&set), [4.0, 5.0, 1.0]);
        set.update(at(900), 2.0, RTT);
        assert_eq!(rates(&set), [2.0]);
    }

    #[test]
    fn maximizing_leaves_the_largest_as_of_now_and_never_the_infinite_one() {
        let mut set = ReceiveRates::new(at(0));
        set.maximize(at(10), 5.0);
        assert_eq!(rates(&set), [5.0]);
        set.maximize(at(500), 3.0);
        assert_eq!(rates(&set), [5.0]);
        set.update(at(700), 1.0, RTT);
        assert_eq!(set.max(), 5.0, "its time is that of the maximizing");
        set.halve();
        assert_eq!(rates(&set), [2.5, 0.5]);
    }
}
