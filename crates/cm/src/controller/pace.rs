//! Expected and pacing rates of window-based controllers that double the window in slow start.

use timeous_core::{Duration, Rate};

/// Expected rate: in slow start the window doubles within a round trip.
pub(super) fn expected(window: u64, in_slow_start: bool, srtt: Duration) -> Rate {
    Rate::from_bytes_in(if in_slow_start { window.saturating_mul(2) } else { window }, srtt)
}

/// Pacing rate above the window's own rate, so that the window remains the limit: 1.2 times, or twice in slow start
/// (docs/decisions/varying-links.md has figures for other factors).
pub(super) fn above(window: u64, in_slow_start: bool, srtt: Duration) -> Rate {
    let window = if in_slow_start { window.saturating_mul(2) } else { window.saturating_add(window / 5) };
    Rate::from_bytes_in(window, srtt)
}
