//! To what a macroflow is held, and for how long.

use timeous_core::{Duration, Instant, Rate};

/// Others that want nothing more for a moment, at the bottom of their sawtooth, free nobody.
const STAYS: Duration = Duration::from_secs(1);

/// What a macroflow is held to, and when others were last found to have no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) rate: Rate,
    pub(super) found_at: Instant,
}

impl Hold {
    /// Whether it holds although nobody is found now. Not if it told of congestion since somebody was.
    pub(super) fn stays(&self, now: Instant, told_at: Option<Instant>) -> bool {
        now.saturating_since(self.found_at) <= STAYS && told_at.is_none_or(|at| at <= self.found_at)
    }
}
