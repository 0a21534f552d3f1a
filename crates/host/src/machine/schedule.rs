//! Schedule of a machine's agents: those that may send, and the timeouts of the others.

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::Instant;

#[derive(Debug, Default)]
pub(super) struct Schedule {
    ready: BTreeSet<usize>,
    due: BTreeSet<(Instant, usize)>,
    timeouts: BTreeMap<usize, Instant>,
}

impl Schedule {
    /// Marks an agent as ready.
    pub(super) fn wake(&mut self, agent: usize) {
        self.ready.insert(agent);
    }

    /// Returns the agent to poll for a packet next.
    pub(super) fn first_ready(&self) -> Option<usize> {
        self.ready.first().copied()
    }

    /// Takes an agent that has nothing to send off the ready set, and sets its timeout.
    pub(super) fn rest(&mut self, agent: usize, timeout: Option<Instant>) {
        self.ready.remove(&agent);
        self.forget(agent);
        if let Some(at) = timeout {
            self.timeouts.insert(agent, at);
            self.due.insert((at, agent));
        }
    }

    /// Returns an agent whose timeout has passed, and marks it as ready.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<usize> {
        let &(_, agent) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.forget(agent);
        self.wake(agent);
        Some(agent)
    }

    pub(super) fn first_due(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    fn forget(&mut self, agent: usize) {
        if let Some(at) = self.timeouts.remove(&agent) {
            self.due.remove(&(at, agent));
        }
    }
}
