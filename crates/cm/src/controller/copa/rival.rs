//! What Copa is among flows that fill the queue: one of theirs, by CUBIC (RFC 9438), for a source that sends in bursts.
//!
//! What is fair is a mean. An intra frame is a burst of as much as a window, and between two of them a stream uses less than it may. So
//! what CUBIC's window would have let go and nobody asked for may be under way later, besides, up to another window: over a group of
//! frames it is a flow's share.
//!
//! And a burst into a queue that others keep full loses packets whatever its stream's share, so that CUBIC's window stays below
//! that. Who leaves the path unused for a moment, again and again, is bounded by its source: so much may be under way that a burst
//! comes through at the rate at which some came of late, as BBR has it, and losses do not make that less. What bounds it is the mean,
//! again, over the round trips in which it was saved up: half as much again as CUBIC's window, or as half of the link if that is more,
//! which is the even share beside one other. So one such stream leaves a quarter of the link, half of that share, where CUBIC would.

use timeous_core::{Duration, Instant};

use super::super::cubic::Cubic;
use super::super::extreme::Greatest;
use super::super::{Acked, Congestion, Controller, TimedOut};
use crate::carried::sampling_period;

/// What is fair, in shares: bursts lose more than an even flow does.
const FAIR: f64 = 1.5;
/// So many may be saved up, for a round trip each, and so many owed.
const MOST_SAVED: f64 = 20.0;
const MOST_OWED: f64 = 3.0;
/// Who left the path unused within so many round trips is bounded by its source.
const FREE_FOR: u64 = 10;
/// What such a stream may have under way, in what comes in a round trip at the rate of the link.
const GAIN: f64 = 1.5;
/// An even share beside one other.
const HALF: f64 = 0.5;
/// A burst comes at the rate of the link, nearly, since little of others' gets between its packets: for so long at least.
const BURST: Duration = Duration::from_millis(40);
/// And the fastest in so long counts.
const FASTEST_OF: Duration = Duration::from_secs(10);

/// The most that came in a second, over the time of a burst.
#[derive(Clone, Debug)]
struct Fastest {
    began: Instant,
    bytes: u64,
    of_late: Greatest<f64>,
}

impl Fastest {
    fn since(now: Instant) -> Self {
        Self { began: now, bytes: 0, of_late: Greatest::default() }
    }

    fn came(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        let lasted = now.saturating_since(self.began);
        if lasted < BURST {
            return;
        }
        // What came once after a long time says nothing of a burst.
        if lasted < BURST * 2 {
            self.of_late.measured(now, FASTEST_OF, self.bytes as f64 / lasted.as_secs_f64());
        }
        (self.began, self.bytes) = (now, 0);
    }

    /// In bytes.
    fn in_time(&self, time: Duration) -> f64 {
        self.of_late.get().unwrap_or(0.0) * time.as_secs_f64()
    }
}

/// The window that it has among others. They leave the queue nearly empty now and then, and fill it again: so long it goes
/// on beside Copa's own.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    pub(super) cubic: Cubic,
    /// The queue was others' then.
    pub(super) at: Instant,
    /// Bytes that a fair window would have let go, each for a round trip, and that nobody asked for; less than none: that are owed.
    saved: f64,
    counted_at: Instant,
    /// The most that was under way of late: in the sampling period of RFC 7661 §4.2.
    used: Greatest<u64>,
    link: Fastest,
    /// The path was last left unused then.
    free_at: Option<Instant>,
    /// Its source bounds it.
    is_bounded: bool,
    /// What a burst may have under way.
    burst: u64,
}

impl Rival {
    /// Others have left it a few packets of its window by now. It begins as they did if it `is_sure` of them: by slow start, until
    /// something is lost.
    pub(super) fn new(now: Instant, mtu: u64, window: u64, is_sure: bool) -> Self {
        let mut cubic = Cubic::new(mtu);
        cubic.adopt(window, (!is_sure).then_some(window));
        let (used, link) = (Greatest::default(), Fastest::since(now));
        Self { cubic, at: now, saved: 0.0, counted_at: now, used, link, free_at: None, is_bounded: false, burst: 0 }
    }

    /// In bytes, with what a burst may have besides.
    pub(super) fn window(&self) -> u64 {
        let window = self.cubic.window();
        if !self.is_bounded {
            return window;
        }
        (window + (self.saved.max(0.0) as u64).min(window)).max(self.burst)
    }

    /// There was nothing to send, though something could have left.
    pub(super) fn left_unused(&mut self, now: Instant) {
        self.free_at = Some(now);
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cubic.in_slow_start()
    }

    /// Its window `holds`, or another. It grows as far as half of it was used of late (RFC 7661 §4.3): between two bursts it is
    /// not.
    pub(super) fn acked(&mut self, now: Instant, acked: &Acked, holds: bool) {
        self.link.came(now, acked.bytes);
        if let Some(srtt) = acked.srtt.filter(|srtt| !srtt.is_zero()) {
            let under_way = acked.outstanding + acked.bytes;
            self.used.measured(now, sampling_period(srtt), under_way);
            if holds {
                self.save(now, srtt, under_way);
            }
            self.bound(now, srtt);
        }
        self.counted_at = now;
        let window_limited = 2 * self.used.get().unwrap_or(0) >= self.cubic.window();
        self.cubic.on_acked(now, Acked { window_limited, ..*acked });
    }

    fn save(&mut self, now: Instant, srtt: Duration, under_way: u64) {
        let share = (self.cubic.window() as f64).max(self.link.in_time(srtt) * HALF);
        let round_trips = now.saturating_since(self.counted_at).as_secs_f64() / srtt.as_secs_f64();
        let saved = self.saved + (share * FAIR - under_way as f64) * round_trips;
        self.saved = saved.clamp(-share * MOST_OWED, share * MOST_SAVED);
    }

    /// Whether its source bounds it, and what a burst may have then. Before anything was lost slow start does as much.
    fn bound(&mut self, now: Instant, srtt: Duration) {
        self.is_bounded = self.free_at.is_some_and(|at| now.saturating_since(at) <= srtt * FREE_FOR);
        let is_fair = self.saved > 0.0 && !self.cubic.in_slow_start();
        self.burst = if is_fair { (self.link.in_time(srtt) * GAIN) as u64 } else { 0 };
    }

    /// What another window let go is no measure of its own. Nor is what is under way between two bursts (RFC 7661 §4.4.1).
    pub(super) fn congested(&mut self, now: Instant, congestion: Congestion, holds: bool) {
        let used = self.used.get().unwrap_or(0).max(congestion.outstanding);
        let outstanding = if holds { used } else { self.cubic.window() };
        self.cubic.on_congestion(now, Congestion { outstanding, ..congestion });
    }

    pub(super) fn timed_out(&mut self, now: Instant, timed_out: TimedOut) {
        self.cubic.on_timeout(now, timed_out);
        (self.saved, self.burst) = (0.0, 0);
    }

    pub(super) fn timed_out_for_nothing(&mut self) {
        self.cubic.on_spurious_timeout(u64::MAX);
    }

    pub(super) fn idle(&mut self, now: Instant, timeouts: u32) {
        self.cubic.on_idle(now, timeouts);
        (self.saved, self.burst, self.counted_at) = (0.0, 0, now);
    }
}
