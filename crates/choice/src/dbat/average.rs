//! The weighted average of a queue's length, as RED has it.

/// After so many arrivals at an empty queue nothing is left of an average that matters.
const FORGOTTEN: u64 = 1_000;

/// A weighted average of a length in bytes, brought up to date as packets arrive.
#[derive(Clone, Debug)]
pub(super) struct Average {
    bytes: f64,
    weight: f64,
}

impl Average {
    /// Of an empty queue; each arrival counts one part in `parts`.
    pub(super) fn new(parts: u32) -> Self {
        Self { bytes: 0.0, weight: 1.0 / f64::from(parts.max(1)) }
    }

    /// A packet has arrived, with which `queued` bytes wait.
    pub(super) fn arrival(&mut self, queued: u64) {
        self.bytes += (queued as f64 - self.bytes) * self.weight;
    }

    /// For so long as `packets` take to arrive, the queue was empty.
    pub(super) fn idle(&mut self, packets: u64) {
        if packets >= FORGOTTEN {
            self.bytes = 0.0;
        }
        // Step by step: a power is not the same on every machine.
        for _ in 0..packets.min(FORGOTTEN) {
            self.bytes -= self.bytes * self.weight;
        }
    }

    /// In whole bytes.
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
