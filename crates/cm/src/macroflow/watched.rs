//! Flows with data in flight, by the time when they are looked at next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use timeous_core::Instant;

use crate::flow::FlowId;

/// Flows by the time of the next look. A flow that was heard meanwhile gets a new time then, so that feedback costs nothing.
#[derive(Debug, Default)]
pub(super) struct Watched(BinaryHeap<Reverse<(Instant, FlowId)>>);

impl Watched {
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.peek().map(|&Reverse((due, _))| due)
    }

    pub(super) fn push(&mut self, due: Instant, id: FlowId) {
        self.0.push(Reverse((due, id)));
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<(Instant, FlowId)> {
        self.next().filter(|&due| due <= now)?;
        self.0.pop().map(|Reverse(first)| first)
    }
}
