//! Packets that were overtaken and declared lost: a late acknowledgement of one shows by how much the path reorders (RFC 8985 §6.2).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, RecentMaximum};

use crate::ack_vector::Report;
use crate::seq::Seq;

/// Maximum number of packets remembered, the newest. Chosen by us: a higher value takes more memory, and time at each acknowledgement.
const MAX_PACKETS: usize = 64;
/// Time for which an overtaken packet counts at least. Chosen by us: a higher value detects losses later for longer on a path that has
/// reordered once.
const PERIOD: Duration = Duration::from_secs(10);

/// The newest packets declared lost after later ones had arrived, and the longest time by which packets were overtaken.
#[derive(Clone, Debug, Default)]
pub(super) struct Overtaken {
    lost: VecDeque<(Seq, Instant)>,
    longest: RecentMaximum,
    rtt: RecentMaximum,
}

impl Overtaken {
    /// Adds a packet that is declared lost, and was overtaken at that time.
    pub(super) fn add(&mut self, seq: Seq, at: Instant) {
        if self.lost.len() == MAX_PACKETS {
            self.lost.pop_front();
        }
        self.lost.push_back((seq, at));
    }

    /// Removes the packets that the report acknowledges. Returns by how much the first of them came after what overtook it.
    pub(super) fn came(&mut self, now: Instant, report: &Report) -> Option<Duration> {
        let mut by = None;
        self.lost.retain(|&(seq, at)| {
            let came = seq.is_in_window(report.oldest, report.newest);
            if came {
                by = by.max(Some(now.saturating_since(at)));
            }
            !came
        });
        by
    }

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
    use crate::ack_vector::PacketState;

    /// A peer that acknowledges a lost packet much later delays the detection of others by a round trip.
    #[test]
    fn the_longest_time_is_bounded_by_a_round_trip_and_forgotten() {
        let at = |millis| Instant::ZERO + Duration::from_millis(millis);
        let report = Report { newest: Seq::new(7), oldest: Seq::new(7), state: PacketState::Received };
        let mut overtaken = Overtaken::default();
        overtaken.add(Seq::new(7), at(100));
        let by = overtaken.came(at(5_100), &report).unwrap();
        assert_eq!((by, overtaken.came(at(5_200), &report)), (Duration::from_secs(5), None));
        overtaken.note(at(5_100), by, Some(Duration::from_millis(80)));
        assert_eq!(overtaken.longest(), Duration::from_millis(80));
        for n in 1..=3 {
            overtaken.note(at(5_100) + PERIOD * n, Duration::ZERO, None);
        }
        assert_eq!(overtaken.longest(), Duration::ZERO);
    }
}
