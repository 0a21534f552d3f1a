//! Longest time by which packets were overtaken of late, which delays the detection of losses (RFC 8985 §6.2).

use timeous_core::{Duration, Instant, RecentMaximum};

/// Time for which an overtaken packet counts at least. Chosen by us: a higher value detects losses later for longer on a path that has
/// reordered once.
const PERIOD: Duration = Duration::from_secs(10);

/// The longest time by which packets were overtaken, and the longest round trip.
#[derive(Clone, Debug, Default)]
pub(super) struct Reordering {
    longest: RecentMaximum,
    rtt: RecentMaximum,
}

impl Reordering {
    /// Notes that packets were overtaken `by` so much, and a round trip.
    pub(super) fn note(&mut self, now: Instant, by: Duration, rtt: Option<Duration>) {
        self.longest.note(now, by, PERIOD);
        self.rtt.note(now, rtt.unwrap_or_default(), PERIOD);
    }

    /// The longest time by which packets were overtaken of late, at most the longest round trip (as RFC 8985 §6.2 has the smoothed one).
    pub(super) fn longest(&self) -> Duration {
        self.longest.get().min(self.rtt.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that acknowledges a lost packet much later delays the detection of others by a round trip.
    #[test]
    fn the_longest_time_is_bounded_by_a_round_trip_and_forgotten() {
        let at = |secs| Instant::ZERO + Duration::from_secs(secs);
        let mut reordering = Reordering::default();
        reordering.note(at(5), Duration::from_secs(5), Some(Duration::from_millis(80)));
        assert_eq!(reordering.longest(), Duration::from_millis(80));
        for n in 1..=3 {
            reordering.note(at(5) + PERIOD * n, Duration::ZERO, None);
        }
        assert_eq!(reordering.longest(), Duration::ZERO);
    }
}
