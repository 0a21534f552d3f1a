//! Policy that drops nothing.

use timeous_core::{Instant, LateChoice, PathState, Queue};

/// Sends all packets in the order of the queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

impl LateChoice for KeepAll {
    fn choose(&mut self, _: Instant, _: &PathState, _: &mut dyn Queue) {}
}
