//! The rates of a controller whose window doubles in slow start and creeps afterwards.

use timeous_core::{Duration, Rate};

/// What can be reckoned with: in slow start the window will have doubled by the time that a round trip is over.
pub(super) fn expected(window: u64, in_slow_start: bool, srtt: Duration) -> Rate {
    Rate::from_bytes_in(if in_slow_start { window.saturating_mul(2) } else { window }, srtt)
}

/// A pace above the window's own rate, so that the window and not the pace is the limit.
pub(super) fn above(window: u64, in_slow_start: bool, srtt: Duration) -> Rate {
    let window = if in_slow_start { window.saturating_mul(2) } else { window.saturating_add(window / 5) };
    Rate::from_bytes_in(window, srtt)
}
