//! Delivery rate of a path, measured from acknowledgements.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, Rate};

/// Number of rounds kept; the best one counts, since the sender limits most of the others. Chosen by us. A higher value
/// keeps the rate of a path that has become slower.
const KEPT_ROUNDS: usize = 4;
/// Minimum duration of a round, which otherwise is a round trip. Chosen by us: acknowledgements are aggregated. A
/// higher value sees changes of the rate later; a lower one overestimates it.
const MIN_ROUND: Duration = Duration::from_millis(40);
/// Minimum measurement time after an outage, when the previous rate is obsolete. Chosen by us. A higher value knows the
/// new rate later; a lower one overestimates it.
const MIN_ROUND_AFTER_OUTAGE: Duration = Duration::from_millis(10);
/// Maximum age of a measurement, in rounds. Chosen by us. A higher value keeps the rate of a path that has become
/// slower.
const MAX_AGE_ROUNDS: u64 = 10;

/// Delivery rate estimator.
///
/// Window over RTT is the same while the path is full. But after the window was halved, the smoothed RTT falls more
/// slowly than the window, while the delivery rate stays.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    began: Option<Instant>,
    bytes: u64,
    rounds: VecDeque<(Instant, Rate)>,
    latest: Option<Rate>,
    /// Time of the latest acknowledgement, and whether an outage of a round trip preceded this round.
    last: Option<Instant>,
    is_afresh: bool,
    /// Whether only one acknowledgement has come since the outage.
    is_first: bool,
}

impl DeliveryRate {
    /// Counts newly acknowledged bytes.
    pub fn acked(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        let Some(began) = self.began else {
            // Bytes of the first acknowledgement were sent before the measurement began.
            self.began = Some(now);
            return;
        };
        let pause = self.last.map_or(Duration::ZERO, |last| now.saturating_since(last));
        if std::mem::take(&mut self.is_first) && pause >= MIN_ROUND_AFTER_OUTAGE {
            // The first acknowledgement was held up on the return path; data held up on the forward path is
            // acknowledged a round trip later.
            (self.began, self.last) = (Some(now), Some(now));
            return;
        }
        self.bytes += bytes;
        let lasted = now.saturating_since(began);
        let stood_still = self.last.replace(now).is_some_and(|last| now.saturating_since(last) > srtt.max(MIN_ROUND));
        if stood_still {
            // The rate before an outage says nothing about the path after it.
            self.latest = None;
        } else if lasted >= if self.is_afresh { MIN_ROUND_AFTER_OUTAGE } else { MIN_ROUND } {
            self.latest = Some(Rate::from_bytes_in(self.bytes, lasted));
        }
        if lasted >= srtt.max(MIN_ROUND) {
            self.rounds.push_back((now, Rate::from_bytes_in(self.bytes, lasted)));
            if self.rounds.len() > KEPT_ROUNDS {
                self.rounds.pop_front();
            }
            self.began = Some(now);
            self.bytes = 0;
            (self.is_afresh, self.is_first) = (stood_still, stood_still);
        }
    }

    /// Delivery rate of the current round or, early in it, of the previous one. `None` early in a round that follows an
    /// outage of a round trip.
    pub fn latest(&self) -> Option<Rate> {
        self.latest
    }

    /// Maximum recent delivery rate, if any was measured.
    pub fn best(&self, now: Instant, srtt: Duration) -> Option<Rate> {
        let limit = srtt.max(MIN_ROUND) * MAX_AGE_ROUNDS;
        self.rounds.iter().filter(|&&(at, _)| now.saturating_since(at) <= limit).map(|&(_, rate)| rate).max()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_four_rounds_counts_until_it_is_stale() {
        let rtt = Duration::from_millis(100);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut delivery = DeliveryRate::default();
        assert_eq!(delivery.best(at(0), rtt), None);
        delivery.acked(at(0), 9_999, rtt);
        for n in 1..=10 {
            delivery.acked(at(10 * n), 1_000, rtt);
        }
        assert_eq!(delivery.best(at(100), rtt), Some(Rate::from_kbps(800)));
        assert_eq!(delivery.latest(), Some(Rate::from_kbps(800)));
        delivery.acked(at(200), 5_000, rtt);
        assert_eq!(delivery.best(at(200), rtt), Some(Rate::from_kbps(800)), "the sender had less to send");
        assert_eq!(delivery.best(at(1_101), rtt), Some(Rate::from_kbps(400)), "the first round is stale");
        for n in 3..=6 {
            delivery.acked(at(100 * n), 2_500, rtt);
        }
        assert_eq!(delivery.best(at(600), rtt), Some(Rate::from_kbps(200)), "the path has become slower");
    }

    #[test]
    fn what_is_delivered_now_is_known_before_the_round_is_over() {
        let rtt = Duration::from_millis(200);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut delivery = DeliveryRate::default();
        for n in 0..=20 {
            delivery.acked(at(10 * n), 1_000, rtt);
        }
        assert_eq!(delivery.latest(), Some(Rate::from_kbps(800)));
        for n in 1..=3 {
            delivery.acked(at(200 + 10 * n), 250, rtt);
            assert_eq!(delivery.latest(), Some(Rate::from_kbps(800)), "too short to tell");
        }
        delivery.acked(at(240), 250, rtt);
        assert_eq!(delivery.latest(), Some(Rate::from_kbps(200)));
    }

    /// Found by `timeous-lab tl-timelines`: after an outage the one packet that ended it determined the rate for 40 ms.
    #[test]
    fn after_a_standstill_the_rate_is_that_at_which_acknowledgements_come_again() {
        let rtt = Duration::from_millis(50);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut delivery = DeliveryRate::default();
        for n in 0..=10 {
            delivery.acked(at(10 * n), 250, rtt);
        }
        assert_eq!(delivery.latest(), Some(Rate::from_kbps(200)));
        delivery.acked(at(500), 250, rtt);
        assert_eq!(delivery.latest(), None, "400 ms say nothing of a path that delivers again");
        for n in 1..=4 {
            delivery.acked(at(500 + 2 * n), 1_000, rtt);
            assert_eq!(delivery.latest(), None, "too short to tell");
        }
        delivery.acked(at(510), 1_000, rtt);
        assert_eq!(delivery.latest(), Some(Rate::from_kbps(4_000)));
    }

    /// Found by `timeous-lab tl-timelines` with outages of 700 ms: an acknowledgement held up on the return path came a
    /// round trip before the others, the gap counted as a low rate, and a datagram was dropped that would have been in
    /// time.
    #[test]
    fn an_acknowledgement_that_waited_on_the_way_back_does_not_begin_the_measurement() {
        let rtt = Duration::from_millis(50);
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let mut delivery = DeliveryRate::default();
        (0..=10).for_each(|n| delivery.acked(at(10 * n), 250, rtt));
        delivery.acked(at(500), 250, rtt);
        delivery.acked(at(525), 250, rtt);
        assert_eq!(delivery.latest(), None);
        (1..=5).for_each(|n| delivery.acked(at(525 + 2 * n), 1_000, rtt));
        assert_eq!(delivery.latest(), Some(Rate::from_kbps(4_000)));
        // On a slow path the second acknowledgement begins the measurement.
        delivery.acked(at(900), 250, rtt);
        [920, 940, 960].into_iter().for_each(|millis| delivery.acked(at(millis), 500, rtt));
        assert_eq!(delivery.latest(), Some(Rate::from_kbps(200)));
    }
}
