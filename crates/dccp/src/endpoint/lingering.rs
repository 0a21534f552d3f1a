//! Ports in TIMEWAIT, after the connection itself has been forgotten (RFC 4340 §8.3).

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::Instant;

use super::FlowKey;

/// Which flow keys must not be used again before when. It is bounded: the first to end goes first.
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
