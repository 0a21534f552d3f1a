//! Ports in TIMEWAIT, after their connection has been removed (RFC 4340 §8.3).

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::Instant;

use super::route::FlowKey;

/// Flow keys in TIMEWAIT, with their expiry. When full, the first to expire is dropped.
#[derive(Debug)]
pub(super) struct Lingering {
    until: BTreeMap<FlowKey, Instant>,
    order: BTreeSet<(Instant, FlowKey)>,
    max: usize,
}

impl Lingering {
    pub(super) fn new(max: usize) -> Self {
        Self { until: BTreeMap::new(), order: BTreeSet::new(), max }
    }

    pub(super) fn insert(&mut self, key: FlowKey, until: Instant) {
        if let Some(old) = self.until.insert(key, until) {
            self.order.remove(&(old, key));
        }
        self.order.insert((until, key));
        while self.order.len() > self.max {
            self.remove_first();
        }
    }

    pub(super) fn contains(&self, key: &FlowKey) -> bool {
        self.until.contains_key(key)
    }

    pub(super) fn expire(&mut self, now: Instant) {
        while self.order.first().is_some_and(|&(until, _)| until <= now) {
            self.remove_first();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    fn remove_first(&mut self) {
        if let Some((_, key)) = self.order.pop_first() {
            self.until.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn key(local_port: u16) -> FlowKey {
        FlowKey { route: SocketAddr::from(([192, 0, 2, 1], 6_511)).into(), remote_port: 1, local_port }
    }

    #[test]
    fn keys_are_held_until_their_time_and_the_first_to_end_makes_room() {
        let at = Instant::from_nanos;
        let mut lingering = Lingering::new(2);
        lingering.insert(key(1), at(30));
        lingering.insert(key(2), at(20));
        lingering.insert(key(1), at(40));
        assert_eq!(lingering.len(), 2, "the same key is held once");
        lingering.insert(key(3), at(50));
        assert!(!lingering.contains(&key(2)) && lingering.contains(&key(1)) && lingering.contains(&key(3)));
        lingering.expire(at(40));
        assert!(!lingering.contains(&key(1)) && lingering.contains(&key(3)));
    }
}
