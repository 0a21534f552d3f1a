//! Rate limit for answers to unverified peers (RFC 4340 §7.5.4, §8.1.3; RFC 5961 §7).

use crate::time::{Duration, Instant};

/// Token bucket with the size of one second's answers.
///
/// ```
/// use timeous_core::{Instant, RateLimit};
/// let mut limit = RateLimit::per_second(8);
/// assert_eq!((0..100).filter(|_| limit.take(Instant::ZERO)).count(), 8);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    interval: Duration,
    /// Time when the bucket is full again; it is empty one second before.
    full_at: Instant,
}

/// Time whose share of the rate may be used at once. Chosen by us: a higher value lets longer bursts pass.
const BURST: Duration = Duration::from_secs(1);

impl RateLimit {
    /// Creates a limit of about `per_second` answers per second.
    pub fn per_second(per_second: u32) -> Self {
        Self { interval: Duration::from_nanos(1_000_000_000 / u64::from(per_second.max(1))), full_at: Instant::ZERO }
    }

    /// Takes a token, if one is left; returns whether an answer is allowed now.
    pub fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.max(now) + self.interval;
        let allowed = full_at - now <= BURST;
        if allowed {
            self.full_at = full_at;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_at_once_and_then_one_every_eighth_of_a_second() {
        let mut limit = RateLimit::per_second(8);
        let mut now = Instant::ZERO + Duration::from_secs(9);
        assert_eq!((0..100).filter(|_| limit.take(now)).count(), 8);
        now += Duration::from_millis(125);
        assert!(limit.take(now));
        assert!(!limit.take(now));
    }
}
