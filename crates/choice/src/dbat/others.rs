//! Whether others keep the path's queue long. Then it is no sign of what this stream does, and stays whatever the stream is asked
//! for: how much of the path is its own is for congestion control to say, and its send buffer tells of that.

use timeous_core::{Duration, Instant, Rate};

/// An own queue is gone after so many times what it holds, where a stream gets through a sixteenth less than the path carries.
const DRAINS: u64 = 16;
/// So long after they were noticed last others are reckoned with: some sawteeth of a TCP.
const REMAIN: Duration = Duration::from_secs(30);

/// What is known of others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Others {
    /// Since when the queue stands though the stream cannot be why.
    since: Option<Instant>,
    noticed: Option<Instant>,
}

impl Others {
    /// The path holds `queue`, or one that is short, for a stream of this rate, of which `best` once came through: less than three
    /// quarters of that fill nothing, unless the stream `falls_behind`. News of a queue are a round trip old.
    pub(super) fn look(
        &mut self,
        now: Instant,
        queue: Option<Duration>,
        (stream, best): (Rate, Rate),
        falls_behind: bool,
        round_trip: Duration,
    ) {
        let is_cause = falls_behind || stream.as_bps() > best.as_bps() / 4 * 3;
        let Some(queue) = queue.filter(|_| !is_cause) else {
            self.since = None;
            return;
        };
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) > queue * DRAINS + round_trip {
            self.noticed = Some(now);
        }
    }

    /// Whether there are some.
    pub(super) fn are_there(&self, now: Instant) -> bool {
        self.noticed.is_some_and(|at| now.saturating_since(at) < REMAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Looks every 100 ms until `until`.
    fn looked(until: u64, queue: u64, stream: u64, falls_behind: bool) -> Others {
        let mut others = Others::default();
        for millis in (0..=until).step_by(100) {
            let queue = (queue > 0).then(|| Duration::from_millis(queue));
            let rates = (Rate::from_kbps(stream), Rate::from_kbps(400));
            others.look(at(millis), queue, rates, falls_behind, Duration::from_millis(200));
        }
        others
    }

    #[test]
    fn a_queue_that_an_own_one_would_have_left_behind_is_others() {
        assert!(!looked(1_800, 100, 300, false).are_there(at(1_800)));
        let others = looked(1_900, 100, 300, false);
        assert!(others.are_there(at(1_900)) && others.are_there(at(31_800)));
        assert!(!others.are_there(at(31_900)));
    }

    #[test]
    fn a_stream_that_may_be_why_learns_nothing() {
        assert!(!looked(9_000, 100, 310, false).are_there(at(9_000)), "it has nearly what came through at best");
        assert!(!looked(9_000, 100, 300, true).are_there(at(9_000)), "less comes through than it hands over");
        assert!(!looked(9_000, 0, 300, false).are_there(at(9_000)), "the queue is short");
    }
}
