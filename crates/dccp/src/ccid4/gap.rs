//! Minimum gap of ten milliseconds between data packets, whatever the rate (RFC 5622 §5).

use timeous_core::{Duration, Instant};

/// Minimum interval between two data packets (RFC 5622 §5).
const MIN_GAP: Duration = Duration::from_millis(10);

/// Time of the next permitted data packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gap(Option<Instant>);

impl Gap {
    /// Notes a sent data packet.
    pub(crate) fn sent(&mut self, now: Instant) {
        self.0 = Some(now + MIN_GAP);
    }

    /// Time until which no other may leave; `None` if it has passed.
    pub(crate) fn until(&self, now: Instant) -> Option<Instant> {
        self.0.filter(|&until| now < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_waits_ten_milliseconds_after_another() {
        let (mut gap, start) = (Gap::default(), Instant::ZERO + Duration::from_secs(1));
        assert_eq!(gap.until(start), None);
        gap.sent(start);
        assert_eq!(gap.until(start + Duration::from_micros(9_999)), Some(start + MIN_GAP));
        assert_eq!(gap.until(start + MIN_GAP), None);
    }
}
