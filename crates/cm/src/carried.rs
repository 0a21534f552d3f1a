//! How much a path has carried in a round trip of late: `pipeACK` (RFC 7661 §4.2).
//!
//! A stream that pauses has less under way when a loss is noticed than it had a little earlier. What it had then, and what of
//! it came through, is what the path is known to carry.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

/// A round trip is measured in so many parts, and one ends with each: a burst is not cut in two.
const PARTS: u64 = 4;
/// The sampling period: so many round trips, but no less than that (RFC 7661 §4.2).
const PERIOD: u64 = 3;
const LEAST_PERIOD: Duration = Duration::from_secs(1);
/// It is kept in so many stretches (RFC 7661 §4.5).
const STRETCHES: u64 = 8;

/// Measures it, from one answer to congestion to the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    since: Option<Instant>,
    /// What was acknowledged in the latest parts of a round trip, and when each began.
    parts: VecDeque<(Instant, u64)>,
    /// The most of a round trip, by stretches of the sampling period.
    most: VecDeque<(Instant, u64)>,
}

impl Carried {
    /// Bytes were acknowledged.
    pub(crate) fn acked(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        self.since.get_or_insert(now);
        forget(&mut self.parts, now, srtt);
        match self.parts.back_mut().filter(|&&mut (began, _)| now.saturating_since(began) < srtt / PARTS) {
            Some((_, known)) => *known += bytes,
            None => self.parts.push_back((now, bytes)),
        }
        let sample: u64 = self.parts.iter().map(|&(_, bytes)| bytes).sum();
        let period = sampling_period(srtt);
        forget(&mut self.most, now, period);
        match self.most.back_mut().filter(|&&mut (began, _)| now.saturating_since(began) < period / STRETCHES) {
            Some((_, most)) => *most = sample.max(*most),
            None => self.most.push_back((now, sample)),
        }
    }

    /// The most of a round trip in the sampling period; `None`, "undefined", before one was measured.
    pub(crate) fn of_late(&self, now: Instant, srtt: Duration) -> Option<u64> {
        let measured = self.since.is_some_and(|since| now.saturating_since(since) >= srtt);
        let recent = self.most.iter().filter(|&&(began, _)| now.saturating_since(began) < sampling_period(srtt));
        measured.then(|| recent.map(|&(_, most)| most).max().unwrap_or(0))
    }
}

/// How long what was used of a path counts, where round trips take so long.
pub(crate) fn sampling_period(srtt: Duration) -> Duration {
    (srtt * PERIOD).max(LEAST_PERIOD)
}

/// Drops what began so long ago.
fn forget(kept: &mut VecDeque<(Instant, u64)>, now: Instant, age: Duration) {
    while kept.front().is_some_and(|&(began, _)| now.saturating_since(began) >= age) {
        kept.pop_front();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn nothing_is_known_before_a_round_trip_was_measured() {
        let mut carried = Carried::default();
        assert_eq!(carried.of_late(at(0), RTT), None);
        carried.acked(at(10), 1_000, RTT);
        carried.acked(at(90), 1_000, RTT);
        assert_eq!(carried.of_late(at(109), RTT), None);
        assert_eq!(carried.of_late(at(110), RTT), Some(2_000));
    }

    #[test]
    fn a_burst_counts_for_a_second_and_then_no_more() {
        let mut carried = Carried::default();
        for n in 0..10 {
            carried.acked(at(9 * n), 1_000, RTT);
        }
        for millis in (150..=2_000).step_by(50) {
            carried.acked(at(millis), 200, RTT);
            let known = carried.of_late(at(millis), RTT).unwrap();
            match millis {
                ..1_000 => assert_eq!(known, 10_000, "at {millis} ms"),
                // The round trips that held its end.
                1_000..1_150 => assert!((400..10_000).contains(&known), "{known} at {millis} ms"),
                _ => assert_eq!(known, 400, "at {millis} ms"),
            }
        }
        assert_eq!(carried.of_late(at(4_000), RTT), Some(0), "nothing came of late");
    }

    #[test]
    fn a_long_round_trip_counts_for_three() {
        let (mut carried, rtt) = (Carried::default(), Duration::from_secs(1));
        carried.acked(at(0), 1_000, rtt);
        assert_eq!(carried.of_late(at(2_999), rtt), Some(1_000));
        assert_eq!(carried.of_late(at(3_000), rtt), Some(0));
    }
}
