//! Weighted average of the queue length, as in RED.

/// Arrivals at an empty queue after which the average is negligible. Chosen by us: it bounds the loop of RED's rule for
/// idle times (Floyd & Jacobson 1993 §4); a higher value only costs time.
const NEGLIGIBLE_AFTER: u64 = 1_000;

/// Weighted average of a queue length in bytes, updated at arrivals.
#[derive(Clone, Debug)]
pub(super) struct Average {
    bytes: f64,
    weight: f64,
}

impl Average {
    /// Average of an empty queue, with a weight of one over `parts` per arrival.
    pub(super) fn new(parts: u32) -> Self {
        Self { bytes: 0.0, weight: 1.0 / f64::from(parts.max(1)) }
    }

    /// Updates the average at an arrival, with `queued` bytes including the new packet.
    pub(super) fn arrival(&mut self, queued: u64) {
        self.bytes += (queued as f64 - self.bytes) * self.weight;
    }

    /// Decays the average for a time in which the queue was empty, long enough for `packets` arrivals.
    pub(super) fn idle(&mut self, packets: u64) {
        if packets >= NEGLIGIBLE_AFTER {
            self.bytes = 0.0;
        }
        // Step by step: the result of a power function differs between machines.
        for _ in 0..packets.min(NEGLIGIBLE_AFTER) {
            self.bytes -= self.bytes * self.weight;
        }
    }

    /// Average in whole bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrival_counts_one_part_in_eight() {
        let mut average = Average::new(8);
        average.arrival(8_000);
        assert_eq!(average.bytes(), 1_000);
        average.arrival(9_000);
        assert_eq!(average.bytes(), 2_000);
        average.arrival(0);
        assert_eq!(average.bytes(), 1_750);
    }

    #[test]
    fn an_empty_time_counts_as_arrivals_at_an_empty_queue() {
        let (mut waited, mut told) = (Average::new(4), Average::new(4));
        for average in [&mut waited, &mut told] {
            average.arrival(64_000);
        }
        waited.idle(2);
        told.arrival(0);
        told.arrival(0);
        assert_eq!((waited.bytes(), told.bytes()), (9_000, 9_000));
        waited.idle(u64::MAX);
        assert_eq!(waited.bytes(), 0);
    }
}
