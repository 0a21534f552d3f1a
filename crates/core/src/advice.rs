//! Early feedback to a stream's source: state of its send buffer, and advised rate.

use crate::time::{Duration, Instant, Rate};

/// Thresholds of a send buffer in bytes: `Min_Th` and `Max_Th` (Hasan et al. §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Thresholds {
    /// `Min_Th`: the stream's rate times the path's delay.
    pub min: u64,
    /// `Max_Th`: twice that.
    pub max: u64,
}

impl Thresholds {
    /// Thresholds for a stream of this rate on a path of this delay; `least` is a lower bound of `Min_Th`.
    ///
    /// ```
    /// use timeous_core::{Duration, Rate, Thresholds};
    /// let thresholds = Thresholds::of(Rate::from_kbps(320), Duration::from_millis(150), 0);
    /// assert_eq!((thresholds.min, thresholds.middle(), thresholds.max), (6_000, 9_000, 12_000));
    /// ```
    #[must_use]
    pub fn of(rate: Rate, delay: Duration, least: u64) -> Self {
        let min = rate.bytes_in(delay).max(least);
        Self { min, max: min.saturating_mul(2) }
    }

    /// Midpoint of the thresholds: above it the source is told.
    #[must_use]
    pub const fn middle(self) -> u64 {
        self.min + (self.max - self.min) / 2
    }
}

/// Feedback to a stream's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// Time of the advice.
    pub at: Instant,
    /// Reason of the advice.
    pub reason: Reason,
    /// Queue length in bytes.
    pub queued: u64,
    /// Weighted average of the queue length in bytes.
    pub average: u64,
    /// Thresholds that the average is compared to.
    pub thresholds: Thresholds,
    /// Current rate of the stream, set by the source or measured.
    pub stream: Rate,
    /// Advised rate.
    pub rate: Rate,
    /// Estimated rate of the path, if known. A source with few rates switches to the next higher one if that is within
    /// this rate; [`rate`](Self::rate) increases in steps.
    pub path: Option<Rate>,
}

impl Advice {
    /// Creates an advice with this time and reason; its numbers are zero, to be set.
    #[must_use]
    pub const fn new(at: Instant, reason: Reason) -> Self {
        let thresholds = Thresholds { min: 0, max: 0 };
        let (stream, rate) = (Rate::ZERO, Rate::ZERO);
        Self { at, reason, queued: 0, average: 0, thresholds, stream, rate, path: None }
    }
}

/// Reason of an advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The average queue length is above the midpoint of its thresholds; or the path's own queue is filling, since less
    /// is delivered than sent.
    Filling,
    /// The average queue length is above `Max_Th`: unmarked packets are dropped.
    Overfull,
    /// The queue is short, and the path is estimated to carry more than the stream's rate.
    Room,
    /// Packets were dropped because they could not have arrived in time: the queue is too long for their deadlines,
    /// whatever the thresholds.
    Late,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Filling, Self::Overfull, Self::Room, Self::Late];

    /// Name, as in statistics and on command lines.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Filling => "filling",
            Self::Overfull => "overfull",
            Self::Room => "room",
            Self::Late => "late",
        }
    }
}

/// State of a monitored send buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BufferState {
    /// Weighted average of the queue length in bytes.
    pub average: u64,
    /// Thresholds that the average is compared to, if the stream's rate and the path's delay are known.
    pub thresholds: Option<Thresholds>,
    /// Rate of the stream, set by the source or measured.
    pub stream: Option<Rate>,
    /// Rate advised last.
    pub advised: Option<Rate>,
}

/// Range of rates that a stream asks of its transport (Hasan et al. §3.2: "the transport protocol keeps its sending rate within
/// a certain range"). Rates of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateRange {
    /// Rate below which the transport falls only as far as fairness demands.
    pub floor: Rate,
    /// Rate that the transport does not exceed.
    pub ceiling: Rate,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_threshold_overflows() {
        let thresholds = Thresholds::of(Rate::MAX, Duration::MAX, 0);
        assert_eq!((thresholds.min, thresholds.max, thresholds.middle()), (u64::MAX, u64::MAX, u64::MAX));
    }
}
