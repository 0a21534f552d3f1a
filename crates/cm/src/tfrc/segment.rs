//! Mean segment size (RFC 5348 §4.1).

/// Minimum number of segments in the average. Chosen by us: four loss intervals (RFC 5348 §4.1) at the highest loss
/// event rates are too short. A higher value follows a change of packet sizes later.
const MIN_SEGMENTS: f64 = 16.0;
/// Maximum number of segments in the average, used without losses. Chosen by us; RFC 5348 §4.1 allows longer averages
/// than four loss intervals. A higher value follows a change of packet sizes later.
const MAX_SEGMENTS: f64 = 4_096.0;

/// Average segment size over about the last four loss intervals.
#[derive(Clone, Debug)]
pub(super) struct MeanSegment {
    mean: f64,
    seen: f64,
}

impl MeanSegment {
    /// Creates the average with `expected` bytes (at least one) as a first segment.
    pub(super) fn new(expected: u64) -> Self {
        Self { mean: expected.max(1) as f64, seen: 1.0 }
    }

    /// Mean size in bytes.
    pub(super) fn mean(&self) -> f64 {
        self.mean
    }

    /// Counts a segment of `bytes` sent at the loss event rate `p`.
    pub(super) fn sent(&mut self, bytes: u64, p: f64) {
        // Four intervals of 1/p segments each; infinite without losses.
        let over = (4.0 / p).clamp(MIN_SEGMENTS, MAX_SEGMENTS);
        self.seen = (self.seen + 1.0).min(over);
        self.mean += (bytes.max(1) as f64 - self.mean) / self.seen;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_of_all_at_first_and_of_four_loss_intervals_later() {
        let mut segment = MeanSegment::new(1_000);
        segment.sent(500, 0.0);
        assert!((segment.mean() - 750.0).abs() < 1e-9);
        for _ in 0..4_000 {
            segment.sent(500, 0.1);
        }
        assert!((segment.mean() - 500.0).abs() < 1.0);
        for _ in 0..40 {
            segment.sent(1_500, 0.1);
        }
        let after = segment.mean();
        assert!(after > 1_100.0 && after < 1_200.0, "63 % of the way after four intervals of ten: {after}");
    }
}
