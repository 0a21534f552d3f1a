//! Which agents have a reason to send, and when the others want to be looked at.

use std::collections::{BTreeMap, BTreeSet};

use timeous_core::Instant;

#[derive(Debug, Default)]
pub(super) struct Schedule {
    ready: BTreeSet<usize>,
    due: BTreeSet<(Instant, usize)>,
    timeouts: BTreeMap<usize, Instant>,
}

impl Schedule {
    /// Something happened to an agent.
    pub(super) fn wake(&mut self, agent: usize) {
        self.ready.insert(agent);
    }

    /// The agent to be asked for a packet next.
    pub(super) fn first_ready(&self) -> Option<usize> {
        self.ready.first().copied()
    }

    /// An agent has nothing to send, and wants to be woken at `timeout`.
    pub(super) fn rest(&mut self, agent: usize, timeout: Option<Instant>) {
        self.ready.remove(&agent);
        self.forget(agent);
        if let Some(at) = timeout {
            self.timeouts.insert(agent, at);
            self.due.insert((at, agent));
        }
    }

    /// An agent whose time has come; it is ready from now on.
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
