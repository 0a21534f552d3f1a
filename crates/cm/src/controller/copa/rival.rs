//! What Copa is among flows that fill the queue: one of theirs, by CUBIC (RFC 9438), for a source that sends in bursts.
//!
//! What is fair is a mean. An intra frame is a burst of as much as a window, and between two of them a stream uses less than it may. So
//! what CUBIC's window would have let go and nobody asked for may be under way later, besides, up to another window: over a group of
//! frames it is a flow's share. A loss takes back what was saved up.

use timeous_core::Instant;

use super::super::cubic::Cubic;
use super::super::extreme::Greatest;
use super::super::{Acked, Congestion, Controller, TimedOut};
use crate::carried::sampling_period;

/// The window that it has among others. They leave the queue nearly empty now and then, and fill it again: so long it goes
/// on beside Copa's own.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    cubic: Cubic,
    /// The queue was others' then.
    pub(super) at: Instant,
    /// Bytes that its window would have let go, and that nobody asked for.
    saved: f64,
    counted_at: Instant,
    /// The most that was under way of late: in the sampling period of RFC 7661 §4.2.
    used: Greatest<u64>,
}

impl Rival {
    /// Others have left it a few packets of its window by now. It begins as they did if it `is_sure` of them: by slow start, until
    /// something is lost.
    pub(super) fn new(now: Instant, mtu: u64, window: u64, is_sure: bool) -> Self {
        let mut cubic = Cubic::new(mtu);
        cubic.adopt(window, (!is_sure).then_some(window));
        Self { cubic, at: now, saved: 0.0, counted_at: now, used: Greatest::default() }
    }

    /// In bytes, with what was saved up.
    pub(super) fn window(&self) -> u64 {
        self.cubic.window() + self.saved as u64
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cubic.in_slow_start()
    }

    /// Its window `holds`, or another. It grows as far as half of it was used of late (RFC 7661 §4.3): between two bursts it is
    /// not.
    pub(super) fn acked(&mut self, now: Instant, acked: &Acked, holds: bool) {
        if let Some(srtt) = acked.srtt.filter(|srtt| !srtt.is_zero()) {
            let under_way = acked.outstanding + acked.bytes;
            self.used.measured(now, sampling_period(srtt), under_way);
            if holds {
                let (window, round_trips) = (
                    self.cubic.window() as f64,
                    now.saturating_since(self.counted_at).as_secs_f64() / srtt.as_secs_f64(),
                );
                self.saved = (self.saved + (window - under_way as f64) * round_trips).clamp(0.0, window);
            }
        }
        self.counted_at = now;
        let window_limited = 2 * self.used.get().unwrap_or(0) >= self.cubic.window();
        self.cubic.on_acked(now, Acked { window_limited, ..*acked });
    }

    /// What another window let go is no measure of its own. Nor is what is under way between two bursts (RFC 7661 §4.4.1).
    pub(super) fn congested(&mut self, now: Instant, congestion: Congestion, holds: bool) {
        let used = self.used.get().unwrap_or(0).max(congestion.outstanding);
        let outstanding = if holds { used } else { self.cubic.window() };
        self.cubic.on_congestion(now, Congestion { outstanding, ..congestion });
        self.saved = 0.0;
    }

    pub(super) fn timed_out(&mut self, now: Instant, timed_out: TimedOut) {
        self.cubic.on_timeout(now, timed_out);
        self.saved = 0.0;
    }

    pub(super) fn timed_out_for_nothing(&mut self) {
        self.cubic.on_spurious_timeout(u64::MAX);
    }

    pub(super) fn idle(&mut self, now: Instant, timeouts: u32) {
        self.cubic.on_idle(now, timeouts);
        (self.saved, self.counted_at) = (0.0, now);
    }
}
