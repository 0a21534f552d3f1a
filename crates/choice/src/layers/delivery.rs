//! Delivery rate of a path, measured from the bytes in flight at each check.

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, PathState, Rate};

/// Rounds whose maximum rate counts, since a small window after a loss limits most of the others. Chosen by us: a
/// higher value believes in an old rate for longer.
const MAX_ROUNDS: usize = 5;
/// Minimum duration of a round, which otherwise is a round trip. Chosen by us: a higher value follows the path later; a
/// lower one overestimates bursts.
const MIN_ROUND: Duration = Duration::from_millis(100);

/// Measures only while packets stay queued: otherwise the source is the limit, not the path.
///
/// The path's stated rate is at least its window over the smoothed RTT. While a window grows faster than the smoothed
/// RTT that is up to twice too high, and only acknowledged bytes show how long a queue is.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Last check with packets left in the queue: time, bytes in flight, and bytes sent.
    last: Option<(Instant, u64, usize)>,
    /// Duration and bytes of the current round.
    lasted: Duration,
    bytes: i64,
    rounds: VecDeque<Rate>,
}

impl Delivery {
    /// Updates the measurement, before a packet is sent.
    pub(super) fn look(&mut self, now: Instant, path: &PathState) {
        let Some((at, outstanding, len)) = self.last.take() else { return };
        self.lasted += now.saturating_since(at);
        self.bytes += len as i64 + outstanding as i64 - path.outstanding as i64;
        let round = path.srtt.unwrap_or_default().max(MIN_ROUND);
        if self.lasted < round {
            return;
        }
        if self.bytes > 0 {
            self.rounds.push_back(Rate::from_bytes_in(self.bytes as u64, self.lasted));
            if self.rounds.len() > MAX_ROUNDS {
                self.rounds.pop_front();
            }
        }
        (self.lasted, self.bytes) = (Duration::ZERO, 0);
    }

    /// Notes that `len` bytes are sent while more stay queued.
    pub(super) fn leave(&mut self, now: Instant, path: &PathState, len: usize) {
        self.last = Some((now, path.outstanding, len));
    }

    /// Rate of the path; its stated rate before the first measurement.
    pub(super) fn rate(&self, path: &PathState) -> Rate {
        self.rounds.iter().copied().max().unwrap_or(path.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::at;

    /// Checks every ten milliseconds, each with the given bytes sent and bytes in flight.
    fn looked(delivery: &mut Delivery, from: u64, looks: &[(usize, u64)]) {
        for (n, &(len, outstanding)) in (0..).zip(looks) {
            let path = PathState { outstanding, rate: Rate::from_kbps(1), ..PathState::default() };
            delivery.look(at(from + 10 * n), &path);
            delivery.leave(at(from + 10 * n), &path, len);
        }
    }

    #[test]
    fn a_window_that_grows_is_not_what_the_path_delivers() {
        let mut delivery = Delivery::default();
        // Two packets are sent for each delivered one.
        let looks: Vec<(usize, u64)> = (0..=10).map(|n| (200, 100 * n)).collect();
        looked(&mut delivery, 0, &looks);
        let path = PathState { rate: Rate::from_kbps(160), ..PathState::default() };
        assert_eq!(delivery.rate(&path), Rate::from_kbps(80));
        assert_eq!(Delivery::default().rate(&path), Rate::from_kbps(160), "nothing was measured");
    }

    #[test]
    fn a_sender_that_had_less_of_a_window_does_not_make_the_path_slower() {
        let mut delivery = Delivery::default();
        looked(&mut delivery, 0, &[(100, 500); 11]);
        looked(&mut delivery, 100, &[(20, 500); 41]);
        let path = PathState::default();
        assert_eq!(delivery.rate(&path), Rate::from_kbps(80));
        looked(&mut delivery, 500, &[(20, 500); 61]);
        assert_eq!(delivery.rate(&path), Rate::from_kbps(16), "unless that lasts");
    }

    #[test]
    fn a_round_in_which_nothing_came_back_says_nothing() {
        let mut delivery = Delivery::default();
        looked(&mut delivery, 0, &[(100, 500); 11]);
        looked(&mut delivery, 1_000, &[(0, 500), (0, 500)]);
        let path = PathState { rate: Rate::from_kbps(160), ..PathState::default() };
        assert_eq!(delivery.rate(&path), Rate::from_kbps(80));
    }
}
