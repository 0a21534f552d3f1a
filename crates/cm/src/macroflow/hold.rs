//! Rate limit of a macroflow, and how long it stays.

use timeous_core::{Duration, Instant, Rate};

/// Time for which a rate limit stays without others found. Chosen by us: they may just be at the bottom of their
/// sawtooth. A higher value limits a user longer than needed.
const LIMIT_LIFETIME: Duration = Duration::from_secs(1);

/// Rate limit, and the time when others with no more were last found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) rate: Rate,
    pub(super) found_at: Instant,
}

impl Hold {
    /// Whether the limit stays although no others are found now; not if congestion was reported since the last time.
    pub(super) fn stays(&self, now: Instant, told_at: Option<Instant>) -> bool {
        now.saturating_since(self.found_at) <= LIMIT_LIFETIME && told_at.is_none_or(|at| at <= self.found_at)
    }
}
