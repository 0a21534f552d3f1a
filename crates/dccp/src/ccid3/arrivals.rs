//! Receive rate, and round-trip estimate from the window counter (RFC 4342 §8.1, §8.3).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use super::counter::ROUND_TRIP;

/// Maximum number of marks, each at the start of a quarter round trip. Chosen by us: it bounds memory; a round trip
/// needs four.
const MAX_MARKS: usize = 64;
/// Weight of the old RTT estimate per sample, in eighths (as in RFC 6298 §2). A higher value follows the path later.
const OLD_WEIGHT: u64 = 7;
/// Upper bound of the round-trip estimate, whatever the window counter says. Chosen by us: a higher value lets one
/// wrong counter silence the feedback for longer.
const MAX_RTT: Duration = Duration::from_secs(64);

/// Start of a quarter round trip: time, counter, bytes received before.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Instant,
    ticks: u64,
    bytes: u64,
}

/// Received data, by time.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    bytes: u64,
    packets: u64,
    marks: VecDeque<Mark>,
    told: Option<Instant>,
    rtt: Option<Duration>,
}

impl Arrivals {
    /// Notes received data that brought the window counter to `ticks`.
    pub(super) fn count(&mut self, now: Instant, bytes: u64, ticks: u64) {
        let newest = self.marks.back().map(|mark| mark.ticks);
        if newest.is_none_or(|newest| ticks > newest) {
            self.sample(now, ticks);
            self.mark(Mark { at: now, ticks, bytes: self.bytes });
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.packets += 1;
    }

    fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MAX_MARKS {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// "Values of D = 4 SHOULD be preferred for RTT estimation" (RFC 4342 §8.1).
    fn sample(&mut self, now: Instant, ticks: u64) {
        let whole = u64::from(ROUND_TRIP);
        let earlier = [4, 3, 2].into_iter().filter(|&ahead| ahead <= whole);
        let found = earlier.into_iter().find_map(|ahead| {
            // The first mark with that counter; the mark of a feedback has the counter of the one before.
            let mark = self.marks.iter().find(|mark| mark.ticks + ahead == ticks)?;
            Some((mark.at, ahead))
        });
        let Some((at, ahead)) = found else { return };
        let sample = (now.saturating_since(at) * u64::from(ROUND_TRIP) / ahead).min(MAX_RTT);
        if !sample.is_zero() {
            self.rtt = Some(self.rtt.map_or(sample, |rtt| (rtt * OLD_WEIGHT + sample) / (OLD_WEIGHT + 1)));
        }
    }

    /// Round-trip estimate from the window counter.
    pub(super) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Mean payload size, in bytes.
    pub(super) fn mean(&self) -> f64 {
        self.bytes as f64 / self.packets.max(1) as f64
    }

    /// Receive rate in bytes per second since the last report, or over the last round trip if that is longer; 0 before
    /// the first report.
    pub(super) fn rate(&self, now: Instant, rtt: Duration) -> f64 {
        let Some(told) = self.told else { return 0.0 };
        self.rate_over(now, now.saturating_since(told).max(rtt))
    }

    /// Receive rate over at least `time`, also before the first report.
    pub(super) fn rate_over(&self, now: Instant, time: Duration) -> f64 {
        let old_enough = |mark: &&Mark| now.saturating_since(mark.at) >= time;
        let since = self.marks.iter().rev().find(old_enough).or_else(|| self.marks.front());
        let Some(since) = since else { return 0.0 };
        let secs = now.saturating_since(since.at).max(time).as_secs_f64();
        if secs > 0.0 { self.bytes.saturating_sub(since.bytes) as f64 / secs } else { 0.0 }
    }

    /// Restarts the measurement at a round trip ago, before data that end a silence are counted: a pause of the source
    /// says nothing about the path (RFC 5348 §6.2).
    pub(super) fn after_silence(&mut self, now: Instant, rtt: Duration) {
        let (at, ticks) = (now.saturating_sub(rtt), self.marks.back().map_or(0, |mark| mark.ticks));
        if self.told.is_some_and(|told| told < at) {
            self.mark(Mark { at, ticks, bytes: self.bytes });
            self.told = Some(at);
        }
    }

    /// Notes that the rate was reported.
    pub(super) fn told(&mut self, now: Instant) {
        let ticks = self.marks.back().map_or(0, |mark| mark.ticks);
        self.mark(Mark { at: now, ticks, bytes: self.bytes });
        self.told = Some(now);
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
    fn the_rate_is_since_it_was_told_or_over_a_round_trip() {
        let mut arrivals = Arrivals::default();
        for n in 0..20 {
            arrivals.count(at(n * 25), 250, n);
        }
        assert_eq!(arrivals.rate(at(500), RTT), 0.0, "the first tells nothing");
        arrivals.told(at(500));
        for n in 20..28 {
            arrivals.count(at(n * 25), 500, n);
        }
        // 200 ms of 20 kB/s, and of 50 ms since then the round trip.
        assert!((arrivals.rate(at(700), RTT) - 20_000.0).abs() < 1.0, "{}", arrivals.rate(at(700), RTT));
        arrivals.told(at(650));
        assert!((arrivals.rate(at(700), RTT) - 20_000.0).abs() < 1.0);
        arrivals.told(at(700));
        // A silence does not count, once it is known for one.
        let mut silent = arrivals.clone();
        silent.after_silence(at(2_700), RTT);
        silent.count(at(2_700), 500, 100);
        assert!((silent.rate(at(2_700), RTT) - 5_000.0).abs() < 1.0, "{}", silent.rate(at(2_700), RTT));
        // Otherwise nothing for long is told as it is.
        arrivals.count(at(2_700), 500, 100);
        assert!((arrivals.rate(at(2_700), RTT) - 250.0).abs() < 1.0);
    }

    #[test]
    fn four_ticks_are_a_round_trip() {
        let mut arrivals = Arrivals::default();
        arrivals.count(at(0), 1, 0);
        arrivals.count(at(9), 1, 0);
        arrivals.count(at(60), 1, 2);
        assert_eq!(arrivals.rtt(), Some(Duration::from_millis(120)), "two ticks are half of one");
        arrivals.count(at(100), 1, 4);
        assert_eq!(arrivals.rtt(), Some(Duration::from_micros(117_500)), "an eighth of 100 ms");
        arrivals.count(at(9_100), 1, 9);
        assert_eq!(arrivals.rtt(), Some(Duration::from_micros(117_500)), "five ticks say nothing");
    }
}
