//! Destinations that get few datagrams, such as servers of names: their datagrams leave as they are (RFC 8085 §3.1.3).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous::core::{Duration, Instant};

/// Datagrams to a destination that leave as they are: an initial window (RFC 3390: up to four packets). A higher value controls
/// less.
const FREE: u32 = 4;
/// Time after which one more leaves as it is: the interval without an estimate of the round-trip time (RFC 8085 §3.1.3).
pub(crate) const INTERVAL: Duration = Duration::from_secs(3);
/// Maximum number of destinations that are remembered. Chosen by us: bounds memory (50 bytes each).
const MAX_DESTINATIONS: usize = 1_024;

/// Allowance of one destination.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: u32,
    since: Instant,
}

/// Allowances of the destinations that are not controlled.
#[derive(Debug, Default)]
pub(crate) struct Rare(BTreeMap<SocketAddr, Allowance>);

impl Rare {
    /// Takes a datagram from the destination's allowance; `false` if it is used up.
    pub(crate) fn take(&mut self, now: Instant, to: SocketAddr) -> bool {
        if self.0.len() >= MAX_DESTINATIONS && !self.0.contains_key(&to) {
            self.0.retain(|_, allowance| now.saturating_since(allowance.since) < INTERVAL);
            if self.0.len() >= MAX_DESTINATIONS {
                self.0.pop_first();
            }
        }
        let allowance = self.0.entry(to).or_insert(Allowance { left: FREE, since: now });
        if allowance.left < FREE && now.saturating_since(allowance.since) >= INTERVAL {
            (allowance.left, allowance.since) = (allowance.left + 1, now);
        }
        match allowance.left.checked_sub(1) {
            Some(left) => {
                allowance.left = left;
                true
            }
            None => {
                self.0.remove(&to);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_datagrams_are_free_and_then_one_at_times() {
        let (mut rare, to) = (Rare::default(), "192.0.2.1:53".parse().unwrap());
        let mut take = |millis| rare.take(Instant::ZERO + Duration::from_millis(millis), to);
        assert!((0..4).all(&mut take));
        assert!(take(3_001) && take(6_002) && !take(6_003));
    }

    #[test]
    fn destinations_are_bounded() {
        let mut rare = Rare::default();
        for port in 1..5_000 {
            assert!(rare.take(Instant::ZERO, SocketAddr::from(([192, 0, 2, 1], port))));
        }
        assert_eq!(rare.0.len(), MAX_DESTINATIONS);
    }
}
