//! Detection of cross traffic that keeps the path's queue long. That queue then says nothing about this stream and
//! stays whatever its rate: the stream's share is up to congestion control, and shows in its send buffer.

use timeous_core::{Duration, Instant, Rate};

/// Drain time of an own queue, in multiples of its delay, if the stream delivers a sixteenth less than the path
/// carries. Chosen by us: a higher value detects cross traffic later.
const DRAIN_FACTOR: u64 = 16;
/// Time for which detected cross traffic is assumed to persist: some sawteeth of a TCP. Chosen by us: a higher value
/// keeps the queue out of the advice for longer after cross traffic has ended.
const CROSS_TRAFFIC_LIFETIME: Duration = Duration::from_secs(30);

/// Detector of cross traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Others {
    /// Time since when the queue has been long although the stream cannot be the cause.
    since: Option<Instant>,
    noticed: Option<Instant>,
}

impl Others {
    /// Takes the path's queueing delay (`None` if short), the stream's rate and the `best` rate ever delivered. A
    /// stream below three quarters of that rate is not the cause of a queue, unless it `falls_behind`. The queueing
    /// delay is a round trip old.
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
        if now.saturating_since(since) > queue * DRAIN_FACTOR + round_trip {
            self.noticed = Some(now);
        }
    }

    /// Whether there is cross traffic.
    pub(super) fn are_there(&self, now: Instant) -> bool {
        self.noticed.is_some_and(|at| now.saturating_since(at) < CROSS_TRAFFIC_LIFETIME)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Checks every 100 ms until `until`.
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
