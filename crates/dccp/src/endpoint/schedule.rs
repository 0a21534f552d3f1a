//! Which connections have something to do now, and which later: an idle one costs nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use timeous_core::Instant;

use super::ConnectionId;

/// A ready queue, served in turn, and the timeouts of all others.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    queue: VecDeque<ConnectionId>,
    queued: BTreeSet<ConnectionId>,
    timeouts: BTreeSet<(Instant, ConnectionId)>,
    timeout_of: BTreeMap<ConnectionId, Instant>,
}

impl Schedule {
    /// The connection may have something to send.
    pub(super) fn make_ready(&mut self, id: ConnectionId) {
        if self.queued.insert(id) {
            self.queue.push_back(id);
        }
    }

    /// The next in turn, which leaves the queue.
    pub(super) fn next_ready(&mut self) -> Option<ConnectionId> {
        let id = self.queue.pop_front()?;
        self.queued.remove(&id);
        Some(id)
    }

    pub(super) fn set_timeout(&mut self, id: ConnectionId, at: Option<Instant>) {
        let old = match at {
            Some(at) => self.timeout_of.insert(id, at),
            None => self.timeout_of.remove(&id),
        };
        if let Some(old) = old {
            self.timeouts.remove(&(old, id));
        }
        if let Some(at) = at {
            self.timeouts.insert((at, id));
        }
    }

    /// The next connection whose timeout has come.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<ConnectionId> {
        let &(_, id) = self.timeouts.first().filter(|&&(at, _)| at <= now)?;
        self.set_timeout(id, None);
        Some(id)
    }

    pub(super) fn first_timeout(&self) -> Option<Instant> {
        self.timeouts.first().map(|&(at, _)| at)
    }

    pub(super) fn forget(&mut self, id: ConnectionId) {
        self.set_timeout(id, None);
        if self.queued.remove(&id) {
            self.queue.retain(|&queued| queued != id);
        }
    }
}
