//! Reports to the driver: events in order, and counters.

use std::collections::VecDeque;

use super::events::{Event, Statistics};

/// Events not polled yet, and counters since the beginning.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) events: VecDeque<Event>,
    pub(super) statistics: Statistics,
}

impl Log {
    pub(super) fn push(&mut self, event: Event) {
        self.events.push_back(event);
    }
}
