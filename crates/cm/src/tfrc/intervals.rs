//! Average loss interval: weights for the last eight intervals, and history discounting (RFC 5348 §5.4, §5.5).

/// Number of closed loss intervals in the average: `n` (RFC 5348 §5.4). A higher value responds to congestion more
/// slowly.
pub const INTERVALS: usize = 8;
/// Weights of the loss intervals, newest first: `w_i` (RFC 5348 §5.4).
const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// Minimum discount factor of older intervals: `DISCOUNT_THRESHOLD` (RFC 5348 §5.5).
const DISCOUNT_THRESHOLD: f64 = 0.25;

/// Closed loss intervals in packets, newest first.
///
/// ```
/// use timeous_cm::tfrc::LossIntervals;
/// let mut intervals = LossIntervals::default();
/// assert_eq!(intervals.loss_event_rate(5_000.0), 0.0, "no loss event yet");
/// intervals.close(100.0);
/// assert_eq!(intervals.loss_event_rate(1.0), 0.01);
/// assert_eq!(intervals.loss_event_rate(200.0), 0.005, "a long current interval counts");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LossIntervals {
    closed: [Closed; INTERVALS],
    len: usize,
    discounting: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Closed {
    length: f64,
    /// DF_i of RFC 5348 §5.5.
    discount: f64,
}

impl Default for LossIntervals {
    fn default() -> Self {
        Self { closed: [Closed::default(); INTERVALS], len: 0, discounting: true }
    }
}

impl LossIntervals {
    /// Creates an empty history without discounting: the plain average of RFC 5348 §5.4.
    pub fn without_discounting() -> Self {
        Self { discounting: false, ..Self::default() }
    }

    /// Whether there was no loss event yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lengths in packets, newest first; the first one of a connection may be fractional (RFC 5348 §6.3.1).
    pub fn lengths(&self) -> impl Iterator<Item = f64> + '_ {
        self.closed().map(|closed| closed.length)
    }

    /// Closes the current interval of `length` packets at a loss event; lengths below one count as one.
    pub fn close(&mut self, length: f64) {
        let length = at_least_one(length);
        let discount = self.discount(length);
        for closed in &mut self.closed {
            closed.discount *= discount;
        }
        self.closed.rotate_right(1);
        self.closed[0] = Closed { length, discount: 1.0 };
        self.len = (self.len + 1).min(INTERVALS);
    }

    /// Loss event rate while the current interval has `current` packets: above 0 and at most 1, or 0 before the first
    /// loss event. The current interval counts only if it lowers the rate.
    pub fn loss_event_rate(&self, current: f64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let current = at_least_one(current);
        let discount = self.discount(current);
        let newest = Sum { packets: current * WEIGHTS[0], weight: WEIGHTS[0] };
        // The current interval replaces the oldest, so that both sums have as many intervals.
        let others = self.closed().take(self.len - 1).zip(&WEIGHTS[1..]);
        let with = others.fold(newest, |sum, (closed, weight)| sum.and(closed, weight * discount));
        with.rate().min(self.past().rate())
    }

    /// DF of RFC 5348 §5.5: discounts old intervals when the current one exceeds twice their average.
    fn discount(&self, current: f64) -> f64 {
        if self.is_empty() || !self.discounting {
            return 1.0;
        }
        let mean = 1.0 / self.past().rate();
        if current > 2.0 * mean { (2.0 * mean / current).max(DISCOUNT_THRESHOLD) } else { 1.0 }
    }

    fn past(&self) -> Sum {
        self.closed().zip(&WEIGHTS).fold(Sum::default(), |sum, (closed, &weight)| sum.and(closed, weight))
    }

    fn closed(&self) -> impl Iterator<Item = &Closed> {
        self.closed[..self.len].iter()
    }
}

fn at_least_one(length: f64) -> f64 {
    // NaN becomes 1, too.
    length.max(1.0)
}

#[derive(Clone, Copy, Default)]
struct Sum {
    packets: f64,
    weight: f64,
}

impl Sum {
    fn and(self, closed: &Closed, weight: f64) -> Self {
        let weight = weight * closed.discount;
        Self { packets: self.packets + closed.length * weight, weight: self.weight + weight }
    }

    fn rate(self) -> f64 {
        self.weight / self.packets
    }
}

#[cfg(test)]
mod tests;
