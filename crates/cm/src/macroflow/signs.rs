//! Congestion history of a macroflow.

use timeous_core::{Duration, Instant};

/// Number of recent congestion events kept: as many must other users have had since a macroflow last reported one.
/// Chosen by us. A higher value limits users later; a lower one limits users who were lucky.
pub(super) const KEPT_EVENTS: usize = 3;
/// Maximum time without a sent packet, after which the history starts anew, since congestion may have been missed.
/// Chosen by us. A higher value holds congestion against users who were silent during it.
const MAX_SEND_GAP: Duration = Duration::from_secs(10);

/// Recent congestion responses, and since when the macroflow has been sending.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// Newest first.
    pub(super) last: [Option<Instant>; KEPT_EVENTS],
    pub(super) present_since: Option<Instant>,
}

impl Signs {
    pub(super) fn met(&mut self, now: Instant) {
        self.last.rotate_right(1);
        self.last[0] = Some(now);
    }

    /// Notes a sent packet; `last` is the time of the previous one.
    pub(super) fn sends(&mut self, now: Instant, last: Option<Instant>) {
        if self.present_since.is_none() || last.is_some_and(|last| now.saturating_since(last) > MAX_SEND_GAP) {
            self.present_since = Some(now);
        }
    }
}
