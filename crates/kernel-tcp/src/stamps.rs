//! Times of acknowledgements, by place in the stream: the kernel counts the bytes of a stream in 32 bits.

use std::collections::VecDeque;

use timeous_core::Instant;

/// Time at which an acknowledgement came that covers the stream up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    end: u64,
    at: Instant,
}

/// Stamped acknowledgements whose records have not been looked for, in stream order.
#[derive(Debug, Default)]
pub(crate) struct Stamps(VecDeque<Stamp>);

impl Stamps {
    /// Adds the time of the acknowledgement of a send whose last byte the kernel numbers `last`, modulo 2^32 and from zero. `given`: the
    /// bytes given to the kernel so far, the send's among them. A number that no send of the last 4 GiB can have is ignored.
    pub(crate) fn add(&mut self, given: u64, last: u32, at: Instant) {
        let behind = (given as u32).wrapping_sub(last.wrapping_add(1));
        if let Some(end) = given.checked_sub(behind.into()) {
            self.0.push_back(Stamp { end, at });
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns when the record that ends at `end` was acknowledged, if the kernel has told, and forgets all times before it.
    pub(crate) fn take(&mut self, end: u64) -> Option<Instant> {
        self.forget_below(end);
        let stamp = self.0.front().copied().filter(|stamp| stamp.end == end)?;
        self.0.pop_front();
        Some(stamp.at)
    }

    /// Forgets the times of what is settled: all that is acknowledged, up to `reached`.
    pub(crate) fn settle(&mut self, reached: u64) {
        self.forget_below(reached + 1);
    }

    fn forget_below(&mut self, end: u64) {
        while self.0.front().is_some_and(|stamp| stamp.end < end) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::Duration;

    use super::*;

    /// Bytes after which the kernel's count begins anew.
    const WRAP: u64 = 1 << 32;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    /// Stamps of sends that end at these places of a stream, `given` bytes of which the kernel has.
    fn stamps(given: u64, ends: &[u64]) -> Stamps {
        let mut stamps = Stamps::default();
        for (n, end) in ends.iter().enumerate() {
            stamps.add(given, (end - 1) as u32, at(n as u64));
        }
        stamps
    }

    #[test]
    fn a_count_that_wraps_means_the_last_send_that_has_it() {
        for laps in [0, 1, 5] {
            let start = laps * WRAP;
            let ends = [start + WRAP - 1, start + WRAP, start + WRAP + 1];
            let mut stamps = stamps(start + WRAP + 700, &ends);
            for (n, end) in ends.into_iter().enumerate() {
                assert_eq!(stamps.take(end), Some(at(n as u64)), "{end}");
            }
        }
        let oldest = WRAP + 701;
        assert_eq!(stamps(2 * WRAP + 700, &[oldest]).take(oldest), Some(at(0)), "4 GiB less a byte are in flight");
    }

    #[test]
    fn a_count_beyond_what_was_given_is_none_of_ours() {
        assert!(stamps(700, &[701]).is_empty());
        assert!(!stamps(700, &[700]).is_empty());
    }

    /// The kernel stamps both parts: the record is acknowledged with the second.
    #[test]
    fn a_record_that_leaves_in_two_parts_has_the_time_of_the_second() {
        let mut whole = Stamps::default();
        // The first part is stamped before the second is given.
        whole.add(400, 399, at(10));
        assert_eq!(whole.take(400 + 600), None);
        whole.add(1_000, 999, at(20));
        assert_eq!(whole.take(1_000), Some(at(20)));
        assert_eq!(stamps(1_000, &[400, 1_000]).take(1_000), Some(at(1)));
    }

    #[test]
    fn a_time_of_what_is_settled_says_nothing_of_what_follows() {
        let mut stamps = stamps(3_000, &[1_000, 2_000]);
        stamps.settle(1_000);
        assert_eq!(stamps.take(1_000), None);
        stamps.add(3_000, 999, at(9));
        assert_eq!(stamps.take(3_000), None, "it came too late");
        assert!(stamps.is_empty());
    }

    /// The error queue is read after the count of acknowledged bytes, and may know more.
    #[test]
    fn a_time_that_comes_before_its_record_is_settled_waits_for_it() {
        let mut stamps = stamps(2_000, &[1_000, 2_000]);
        assert_eq!(stamps.take(1_000), Some(at(0)));
        stamps.settle(1_000);
        assert!(!stamps.is_empty());
        assert_eq!(stamps.take(2_000), Some(at(1)));
    }
}
