//! The average loss interval: weights for the last eight, and history discounting (RFC 5348 §5.4, §5.5).

/// So many loss intervals count beside the current one: more would make the rate answer too slowly (RFC 5348 §5.4).
pub const INTERVALS: usize = 8;
/// What the newest loss intervals count for, the newest first.
const WEIGHTS: [f64; INTERVALS] = [1.0, 1.0, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2];
/// Older intervals are never discounted to less at once.
const THRESHOLD: f64 = 0.25;

/// The loss intervals that are over, in packets, the newest first.
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
    /// None yet, and none will be discounted: the average of RFC 5348 §5.4 as it stands.
    pub fn without_discounting() -> Self {
        Self { discounting: false, ..Self::default() }
    }

    /// Whether there was no loss event yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The lengths in packets, the newest first; the first of a connection is not a whole number (RFC 5348 §6.3.1).
    pub fn lengths(&self) -> impl Iterator<Item = f64> + '_ {
        self.closed().map(|closed| closed.length)
    }

    /// A loss event ends the current interval, which had `length` packets; what is less than one counts as one.
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

    /// The loss event rate while the current interval has `current` packets: above 0 and at most 1, or 0 without any loss
    /// event. The current interval counts only if that makes the rate less.
    pub fn loss_event_rate(&self, current: f64) -> f64 {
        if self.is_empty() {
            return 0.0;
        }
        let current = at_least_one(current);
        let discount = self.discount(current);
        let newest = Sum { packets: current * WEIGHTS[0], weight: WEIGHTS[0] };
        // The oldest gives way to it: as many intervals in either sum.
        let others = self.closed().take(self.len - 1).zip(&WEIGHTS[1..]);
        let with = others.fold(newest, |sum, (closed, weight)| sum.and(closed, weight * discount));
        with.rate().min(self.past().rate())
    }

    /// DF of RFC 5348 §5.5: how much less old intervals count while the current one is more than twice their average.
    fn discount(&self, current: f64) -> f64 {
        if self.is_empty() || !self.discounting {
            return 1.0;
        }
        let mean = 1.0 / self.past().rate();
        if current > 2.0 * mean { (2.0 * mean / current).max(THRESHOLD) } else { 1.0 }
    }

    fn past(&self) -> Sum {
        self.closed().zip(&WEIGHTS).fold(Sum::default(), |sum, (closed, &weight)| sum.and(closed, weight))
    }

    fn closed(&self) -> impl Iterator<Item = &Closed> {
        self.closed[..self.len].iter()
    }
}

fn at_least_one(length: f64) -> f64 {
    // Not a number becomes one, too.
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
