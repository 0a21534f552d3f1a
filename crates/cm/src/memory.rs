//! State that outlives its flows (RFC 9040): idle macroflows, restored path states not yet used, and learnt path states
//! not yet polled.

use std::collections::{BTreeMap, VecDeque};

use timeous_core::{Duration, Instant};

use crate::destination::{Destination, User};
use crate::resumption::Learnt;

/// Time for which a macroflow is kept after its last flow. Chosen by us: RFC 7661 §4.4 keeps a window for up to five
/// minutes, and half of it is still useful a little longer. A higher value takes more memory.
const IDLE_LIFETIME: Duration = Duration::from_secs(600);
/// Maximum number of idle macroflows per user. Chosen by us. A higher value takes more memory; a lower one forgets
/// paths sooner.
const MAX_IDLE_PER_USER: usize = 256;
/// Maximum number of restored and unused paths, and of learnt and not yet polled ones. Chosen by us. A higher value
/// takes more memory; a lower one forgets paths sooner.
const MAX_STORED_PATHS: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Macroflows without flows, by user, in the order in which they became idle; some may have flows again.
    lingering: BTreeMap<Option<User>, VecDeque<(Instant, u64)>>,
    recalled: BTreeMap<Destination, (Learnt, Duration)>,
    learnt: VecDeque<(Destination, Learnt)>,
}

impl Memory {
    /// Notes that a macroflow has lost its last flow.
    pub(crate) fn linger(&mut self, now: Instant, user: Option<User>, macroflow: u64) {
        let queue = self.lingering.entry(user).or_default();
        queue.retain(|&(_, other)| other != macroflow);
        queue.push_back((now, macroflow));
    }

    /// Removes and returns idle macroflows that are too old or too many.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<u64> {
        let mut gone = Vec::new();
        self.lingering.retain(|_, queue| {
            while let Some(&(since, macroflow)) = queue.front()
                && (queue.len() > MAX_IDLE_PER_USER || now.saturating_since(since) > IDLE_LIFETIME)
            {
                queue.pop_front();
                gone.push(macroflow);
            }
            !queue.is_empty()
        });
        gone
    }

    /// Notes that a macroflow has flows again.
    pub(crate) fn revive(&mut self, user: Option<User>, macroflow: u64) {
        if let Some(queue) = self.lingering.get_mut(&user) {
            queue.retain(|&(_, other)| other != macroflow);
        }
    }

    /// Stores the state of a path that is not in use.
    pub(crate) fn recall(&mut self, destination: Destination, learnt: Learnt, age: Duration) {
        if self.recalled.len() >= MAX_STORED_PATHS && !self.recalled.contains_key(&destination) {
            self.recalled.pop_first();
        }
        self.recalled.insert(destination, (learnt, age));
    }

    /// Removes and returns the stored state of a path that comes into use.
    pub(crate) fn take(&mut self, destination: &Destination) -> Option<(Learnt, Duration)> {
        self.recalled.remove(destination)
    }

    /// Queues a path's state for storage.
    pub(crate) fn learn(&mut self, destination: Destination, learnt: Learnt) {
        if self.learnt.len() >= MAX_STORED_PATHS {
            self.learnt.pop_front();
        }
        self.learnt.push_back((destination, learnt));
    }

    pub(crate) fn poll_learnt(&mut self) -> Option<(Destination, Learnt)> {
        self.learnt.pop_front()
    }
}
