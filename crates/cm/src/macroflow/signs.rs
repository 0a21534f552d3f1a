//! When a macroflow met congestion of late, and since when it could have.

use timeous_core::{Duration, Instant};

/// So many signs of congestion others must have met since a macroflow last told of one.
pub(super) const SIGNS: usize = 3;
/// Who sent nothing for so long has missed what others met meanwhile.
const ABSENCE: Duration = Duration::from_secs(10);

/// When congestion was last answered, and since when a macroflow could have met some.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signs {
    /// The newest first.
    pub(super) last: [Option<Instant>; SIGNS],
    pub(super) present_since: Option<Instant>,
}

impl Signs {
    pub(super) fn met(&mut self, now: Instant) {
        self.last.rotate_right(1);
        self.last[0] = Some(now);
    }

    /// Packets leave, and the last left at some instant.
    pub(super) fn sends(&mut self, now: Instant, last: Option<Instant>) {
        if self.present_since.is_none() || last.is_some_and(|last| now.saturating_since(last) > ABSENCE) {
            self.present_since = Some(now);
        }
    }
}
