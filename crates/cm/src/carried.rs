//! Bytes recently acknowledged within one round trip: `pipeACK` (RFC 7661 §4.2).
//!
//! A stream that pauses has less in flight when a loss is detected than it had a little earlier. `pipeACK` remembers
//! the earlier amount that was delivered, which the path is known to carry.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

/// Slots per round trip of the sliding sum. Chosen by us: a burst that spans two slots is still counted as one. A
/// higher value is more accurate and takes more memory.
const SLOTS_PER_ROUND: u64 = 4;
/// Sampling period of `pipeACK`, in round trips (RFC 7661 §4.2).
const PERIOD_ROUNDS: u64 = 3;
/// Minimum sampling period of `pipeACK` (RFC 7661 §4.2).
const MIN_PERIOD: Duration = Duration::from_secs(1);
/// Buckets per sampling period, each of which keeps its maximum (RFC 7661 §4.5). The number is chosen by us: a higher
/// one forgets a sample more punctually and takes more memory.
const BUCKETS_PER_PERIOD: u64 = 8;

/// Measures `pipeACK`, restarted after each congestion response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Carried {
    since: Option<Instant>,
    /// Bytes acknowledged within the last round trip, by slot, with the slot's start.
    parts: VecDeque<(Instant, u64)>,
    /// Largest `pipeACK` sample of each bucket of the sampling period, with the bucket's start.
    most: VecDeque<(Instant, u64)>,
}

impl Carried {
    /// Counts newly acknowledged bytes.
    pub(crate) fn acked(&mut self, now: Instant, bytes: u64, srtt: Duration) {
        self.since.get_or_insert(now);
        forget(&mut self.parts, now, srtt);
        match self.parts.back_mut().filter(|&&mut (began, _)| now.saturating_since(began) < srtt / SLOTS_PER_ROUND) {
            Some((_, known)) => *known += bytes,
            None => self.parts.push_back((now, bytes)),
        }
        let sample: u64 = self.parts.iter().map(|&(_, bytes)| bytes).sum();
        let period = sampling_period(srtt);
        forget(&mut self.most, now, period);
        match self.most.back_mut().filter(|&&mut (began, _)| now.saturating_since(began) < period / BUCKETS_PER_PERIOD)
        {
            Some((_, most)) => *most = sample.max(*most),
            None => self.most.push_back((now, sample)),
        }
    }

    /// The largest sample in the sampling period; `None` ("undefined") before a full round trip was measured.
    pub(crate) fn of_late(&self, now: Instant, srtt: Duration) -> Option<u64> {
        let measured = self.since.is_some_and(|since| now.saturating_since(since) >= srtt);
        let recent = self.most.iter().filter(|&&(began, _)| now.saturating_since(began) < sampling_period(srtt));
        measured.then(|| recent.map(|&(_, most)| most).max().unwrap_or(0))
    }
}

/// Sampling period of `pipeACK` for this smoothed RTT.
pub(crate) fn sampling_period(srtt: Duration) -> Duration {
    (srtt * PERIOD_ROUNDS).max(MIN_PERIOD)
}

/// Drops entries that are at least `age` old.
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
                // The round trips that contained its end.
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
