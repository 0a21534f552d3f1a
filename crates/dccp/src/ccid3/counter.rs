//! The window counter: quarter round trips, carried by data packets (RFC 4342 §8.1).

use timeous_core::{Duration, Instant};

/// Modulus of the counter: four bits (RFC 4342 §8.1).
const MODULUS: u8 = 16;
/// Maximum step between adjacent data packets, in ticks (RFC 4342 §8.1).
const MAX_STEP: u64 = 5;
/// Ticks of the counter per round trip (RFC 4342 §8.1).
pub(super) const ROUND_TRIP: u8 = 4;

/// Steps from `from` to `to`, in circular arithmetic.
pub(super) fn distance(from: u8, to: u8) -> u8 {
    to.wrapping_sub(from) % MODULUS
}

/// Window counter of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counter {
    last: u8,
    since: Option<Instant>,
}

impl Counter {
    /// Value of the newest data packet.
    pub(super) fn value(&self) -> u8 {
        self.last
    }

    /// Returns the value for a data packet sent now.
    pub(super) fn next(&mut self, now: Instant, rtt: Duration) -> u8 {
        let since = *self.since.get_or_insert(now);
        let quarter = (rtt / u64::from(ROUND_TRIP)).max(Duration::from_nanos(1));
        let quarters = now.saturating_since(since).as_nanos() / quarter.as_nanos();
        if quarters > 0 {
            self.last = (self.last + quarters.min(MAX_STEP) as u8) % MODULUS;
            self.since = Some(now);
        }
        self.last
    }

    /// Advances the counter after a packet with the value `acked` arrived: what follows is a round trip later.
    pub(super) fn on_acked(&mut self, now: Instant, acked: u8) {
        let behind = distance(self.last, (acked + ROUND_TRIP) % MODULUS);
        // A distance of more than a round trip means that the counter is ahead.
        if (1..=ROUND_TRIP).contains(&behind) && self.since.is_some() {
            self.last = (self.last + behind) % MODULUS;
            self.since = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn it_counts_quarter_round_trips_and_never_more_than_five_at_once() {
        let mut counter = Counter::default();
        let values: Vec<u8> = [0, 24, 25, 49, 50, 130, 9_000, 9_024, 9_100].map(|ms| counter.next(at(ms), RTT)).into();
        // From 25 on the next quarter is over at 50; 80 ms make three, and hours no more than five.
        assert_eq!(values, [0, 0, 1, 1, 2, 5, 10, 10, 14]);
        assert_eq!(counter.next(at(9_200), RTT), 2, "it wraps at sixteen");
    }

    #[test]
    fn what_follows_an_acknowledgement_is_a_round_trip_later() {
        let mut counter = Counter::default();
        counter.next(at(0), RTT);
        counter.on_acked(at(10), 0);
        assert_eq!(counter.next(at(10), RTT), 4);
        counter.on_acked(at(11), 0);
        assert_eq!(counter.next(at(11), RTT), 4, "it is there already");
        assert_eq!(counter.next(at(34), RTT), 4, "a quarter begins with the step");
        assert_eq!(counter.next(at(35), RTT), 5);
        counter.on_acked(at(36), 4);
        assert_eq!(counter.next(at(36), RTT), 8);
    }

    #[test]
    fn distances_are_circular() {
        assert_eq!((distance(14, 2), distance(2, 14), distance(3, 3)), (4, 12, 0));
    }
}
