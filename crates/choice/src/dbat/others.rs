//! Whether others keep the path's queue long. Then it is no sign of what this stream does, and stays whatever the stream is asked
//! for: how much of the path is its own is for congestion control to say, and its send buffer tells of that.

use timeous_core::{Duration, Instant, Rate};

/// An own queue is gone after so many times what it holds, where a stream gets through a sixteenth less than the path carries.
const DRAINS: u64 = 16;
/// It is gone, too, while each of so many round trips was short: one is now and then, and the smoothed one needs ten. That time
/// counts back: an own queue is soon forgotten, and others' come again.
const SHORT: u64 = 2;
/// So long after they were noticed last others are reckoned with: some sawteeth of a TCP.
const REMAIN: Duration = Duration::from_secs(30);

/// What is known of others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Others {
    /// For how long the queue has stood though the stream cannot be why, and when that was looked at.
    stands: Option<(Duration, Instant)>,
    /// Since when each round trip is short.
    short: Option<Instant>,
    noticed: Option<Instant>,
}

impl Others {
    /// By the smoothed round trip the path holds `queue`, or one that is short; by the latest it may hold one that `is_short`. Of
    /// a stream of this rate `best` once came through: less than three quarters of that fill nothing, unless it `falls_behind`.
    /// News of a queue are a round trip old.
    pub(super) fn look(
        &mut self,
        now: Instant,
        (queue, is_short): (Option<Duration>, bool),
        (stream, best): (Rate, Rate),
        falls_behind: bool,
        round_trip: Duration,
    ) {
        let is_cause = falls_behind || stream.as_bps() > best.as_bps() / 4 * 3;
        let short = *self.short.get_or_insert(now);
        self.short = Some(short).filter(|_| is_short);
        let is_gone = is_short && now.saturating_since(short) > round_trip * SHORT;
        let Some(queue) = queue.filter(|_| !is_cause) else {
            self.stands = None;
            return;
        };
        let (mut stands, looked) = self.stands.unwrap_or((Duration::ZERO, now));
        let since = now.saturating_since(looked);
        stands = if is_gone { stands.saturating_sub(since) } else { stands + since };
        self.stands = Some((stands, now));
        if !is_gone && stands > queue * DRAINS + round_trip {
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
        looked_where(until, queue, stream, falls_behind, |_| false)
    }

    /// The same where the latest round trip is short at some of these times.
    fn looked_where(until: u64, queue: u64, stream: u64, falls_behind: bool, is_short: impl Fn(u64) -> bool) -> Others {
        let mut others = Others::default();
        for millis in (0..=until).step_by(100) {
            let queue = (queue > 0).then(|| Duration::from_millis(queue));
            let rates = (Rate::from_kbps(stream), Rate::from_kbps(400));
            others.look(at(millis), (queue, is_short(millis)), rates, falls_behind, Duration::from_millis(200));
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

    /// Found over CCID 3, where one stream alone took its own queue for others' in two runs of three.
    #[test]
    fn a_queue_of_which_only_the_smoothed_round_trip_tells_is_gone() {
        let looked = |is_short: fn(u64) -> bool| looked_where(9_000, 100, 300, false, is_short).are_there(at(9_000));
        assert!(!looked(|millis| millis >= 900), "it was there for 900 ms and two round trips");
        assert!(looked(|millis| millis % 1_500 >= 900), "it comes back");
    }

    #[test]
    fn a_stream_that_may_be_why_learns_nothing() {
        assert!(!looked(9_000, 100, 310, false).are_there(at(9_000)), "it has nearly what came through at best");
        assert!(!looked(9_000, 100, 300, true).are_there(at(9_000)), "less comes through than it hands over");
        assert!(!looked(9_000, 0, 300, false).are_there(at(9_000)), "the queue is short");
    }
}
