//! What Copa is among flows that fill the queue: one of theirs, by CUBIC (RFC 9438).

use timeous_core::Instant;

use super::super::cubic::Cubic;
use super::super::{Acked, Congestion, Controller, TimedOut};

/// The window that it has among others. They leave the queue nearly empty now and then, and fill it again: so long it goes
/// on beside Copa's own.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    cubic: Cubic,
    /// The queue was others' then.
    pub(super) at: Instant,
}

impl Rival {
    /// Others have left it a few packets of its window by now. It begins as they did if it `is_sure` of them: by slow start, until
    /// something is lost.
    pub(super) fn new(now: Instant, mtu: u64, window: u64, is_sure: bool) -> Self {
        let mut cubic = Cubic::new(mtu);
        cubic.adopt(window, (!is_sure).then_some(window));
        Self { cubic, at: now }
    }

    /// In bytes.
    pub(super) fn window(&self) -> u64 {
        self.cubic.window()
    }

    pub(super) fn in_slow_start(&self) -> bool {
        self.cubic.in_slow_start()
    }

    /// Its window holds, or another: then it grows as far as half of it is used all the same (RFC 7661 §4.3).
    pub(super) fn acked(&mut self, now: Instant, acked: &Acked, holds: bool) {
        let is_used = holds || 2 * (acked.outstanding + acked.bytes) >= self.window();
        self.cubic.on_acked(now, Acked { window_limited: acked.window_limited && is_used, ..*acked });
    }

    /// What another window let go is no measure of its own.
    pub(super) fn congested(&mut self, now: Instant, congestion: Congestion, holds: bool) {
        let outstanding = if holds { congestion.outstanding } else { self.window() };
        self.cubic.on_congestion(now, Congestion { outstanding, ..congestion });
    }

    pub(super) fn timed_out(&mut self, now: Instant, timed_out: TimedOut) {
        self.cubic.on_timeout(now, timed_out);
    }

    pub(super) fn idle(&mut self, now: Instant, timeouts: u32) {
        self.cubic.on_idle(now, timeouts);
    }
}
