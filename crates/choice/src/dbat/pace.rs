//! Offered rate of a stream over the last complete time span.

use timeous_core::{Duration, Instant, Rate};

/// Estimator of the offered rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    span: Duration,
    since: Option<Instant>,
    bytes: u64,
    rate: Option<Rate>,
}

impl Pace {
    /// Creates an estimator with this time span, which should cover several frames, as their sizes differ.
    pub(super) const fn over(span: Duration) -> Self {
        Self { span, since: None, bytes: 0, rate: None }
    }

    /// Counts `len` bytes handed over at `at`.
    pub(super) fn arrived(&mut self, at: Instant, len: u64) {
        let since = *self.since.get_or_insert(at);
        let span = at.saturating_since(since);
        if span >= self.span {
            self.rate = Some(Rate::from_bytes_in(self.bytes, span));
            (self.since, self.bytes) = (Some(at), 0);
        }
        self.bytes = self.bytes.saturating_add(len);
    }

    /// Rate of the last complete span; `None` in the first one.
    pub(super) const fn rate(&self) -> Option<Rate> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_frames_is_the_rate() {
        let mut pace = Pace::over(Duration::from_secs(1));
        for frame in 0..=50 {
            assert_eq!(pace.rate().is_some(), frame > 25, "frame {frame}");
            pace.arrived(Instant::ZERO + Duration::from_millis(40) * frame, 5_000);
        }
        assert_eq!(pace.rate(), Some(Rate::from_kbps(1_000)));
    }

    #[test]
    fn a_pause_counts() {
        let mut pace = Pace::over(Duration::from_secs(1));
        pace.arrived(Instant::ZERO, 5_000);
        pace.arrived(Instant::ZERO + Duration::from_secs(4), 5_000);
        assert_eq!(pace.rate(), Some(Rate::from_kbps(10)));
    }
}
