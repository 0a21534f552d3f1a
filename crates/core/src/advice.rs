//! Early feedback to a stream's source: how full its send buffer is, and which rate it had better take.

use crate::time::{Duration, Instant, Rate};

/// What a send buffer is measured by, in bytes: `Min_Th` and `Max_Th` (Hasan et al. §3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Thresholds {
    /// What the stream hands over within the path's delay.
    pub min: u64,
    /// Twice as much.
    pub max: u64,
}

impl Thresholds {
    /// Of a stream of this rate on a path of this delay; `least` is the smallest `Min_Th` there may be.
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

    /// Halfway between both: beyond it the source is told.
    #[must_use]
    pub const fn middle(self) -> u64 {
        self.min + (self.max - self.min) / 2
    }
}

/// Feedback to a stream's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// When it was given.
    pub at: Instant,
    /// Why.
    pub reason: Reason,
    /// What is queued, in bytes.
    pub queued: u64,
    /// Its weighted average, in bytes.
    pub average: u64,
    /// What that is measured by.
    pub thresholds: Thresholds,
    /// The rate that the stream has as far as it said.
    pub stream: Rate,
    /// The rate that it had better take.
    pub rate: Rate,
    /// What the path is thought to carry, if that is known. A source with few rates to choose from takes the next one
    /// above its own when that fits into this; [`rate`](Self::rate) goes up in steps.
    pub path: Option<Rate>,
}

/// Why advice is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The average queue is beyond the middle of its thresholds; or it is the path's own queue that fills, since less comes
    /// through than is handed over.
    Filling,
    /// It is beyond `Max_Th`: what is not marked is given up.
    Overfull,
    /// Little waits, and the path is thought to carry more than the stream has.
    Room,
    /// Packets were given up since they could not have arrived in time: too much waits for their deadlines, whatever the
    /// thresholds say.
    Late,
}

impl Reason {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Filling, Self::Overfull, Self::Room, Self::Late];

    /// Its name, as in statistics and on command lines.
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

/// How a send buffer stands that somebody watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BufferState {
    /// The weighted average of what is queued, in bytes.
    pub average: u64,
    /// What it is measured by, if the stream's rate and the path's delay are known.
    pub thresholds: Option<Thresholds>,
    /// The rate that the stream has, as it said or as it was measured.
    pub stream: Option<Rate>,
    /// The rate that was advised last.
    pub advised: Option<Rate>,
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
