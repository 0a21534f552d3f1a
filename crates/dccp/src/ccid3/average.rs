//! Loss event rate from loss intervals, computed alike at both ends (RFC 5348 §5.4, RFC 5622 §6.1).

use timeous_cm::tfrc::LossIntervals;

use crate::ccid4::effective_length;

/// Length of a loss interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Length {
    /// Data packets.
    pub(super) data: f64,
    /// Packets lost or marked among them.
    pub(super) lost: u32,
    /// Whether it lasted at most two round trips.
    pub(super) short: bool,
}

impl Length {
    fn counted(&self, small: bool) -> f64 {
        if small { effective_length(self.data, self.lost, self.short) } else { self.data }
    }
}

/// Loss event rate p from closed intervals, oldest first, and the current one. `small`: as in CCID 4.
pub(super) fn loss_event_rate(closed: impl IntoIterator<Item = Length>, current: Length, small: bool) -> f64 {
    let mut intervals = LossIntervals::default();
    for length in closed {
        intervals.close(length.counted(small));
    }
    // A short current interval is not used (RFC 5622 §6.1): as the smallest value, zero has no effect.
    let unused = small && current.short;
    intervals.loss_event_rate(if unused { 0.0 } else { current.data })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length(data: f64, lost: u32, short: bool) -> Length {
        Length { data, lost, short }
    }

    #[test]
    fn ccid_4_divides_short_intervals_and_does_not_use_a_short_current_one() {
        let closed = [length(100.0, 1, false), length(20.0, 4, true)];
        let current = length(500.0, 1, true);
        // Equal weights of the newest two: 100 and 20, or 100 and 5.
        assert!((loss_event_rate(closed, length(1.0, 1, false), false) - 2.0 / 120.0).abs() < 1e-9);
        assert!((loss_event_rate(closed, current, true) - 2.0 / 105.0).abs() < 1e-9);
        assert!(loss_event_rate(closed, Length { short: false, ..current }, true) < 2.0 / 105.0);
        assert_eq!(loss_event_rate([], current, false), 0.0);
    }
}
