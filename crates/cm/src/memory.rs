//! What outlives its flows: macroflows that wait for the next, what was recalled for paths yet to be used, and what was
//! learnt and is yet to be told (RFC 9040).

use std::collections::{BTreeMap, VecDeque};

use timeous_core::{Duration, Instant};

use crate::destination::{Destination, User};
use crate::resumption::Learnt;

/// So long after its last flow a macroflow is kept: RFC 7661 §4.4 lets a window stand for five minutes at most, and half
/// of it is still of use a little later.
const LINGER: Duration = Duration::from_secs(600);
/// So many of each user's.
const LINGERING: usize = 256;
/// So many paths may be recalled and not yet used, or learnt and not yet told.
const PATHS: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// Macroflows without flows, by user, in the order in which they lost them; some have flows again.
    lingering: BTreeMap<Option<User>, VecDeque<(Instant, u64)>>,
    recalled: BTreeMap<Destination, (Learnt, Duration)>,
    learnt: VecDeque<(Destination, Learnt)>,
}

impl Memory {
    /// A macroflow has lost its last flow.
    pub(crate) fn linger(&mut self, now: Instant, user: Option<User>, macroflow: u64) {
        let queue = self.lingering.entry(user).or_default();
        queue.retain(|&(_, other)| other != macroflow);
        queue.push_back((now, macroflow));
    }

    /// Macroflows whose time is over, or that are too many.
    pub(crate) fn expired(&mut self, now: Instant) -> Vec<u64> {
        let mut gone = Vec::new();
        self.lingering.retain(|_, queue| {
            while let Some(&(since, macroflow)) = queue.front()
                && (queue.len() > LINGERING || now.saturating_since(since) > LINGER)
            {
                queue.pop_front();
                gone.push(macroflow);
            }
            !queue.is_empty()
        });
        gone
    }

    /// A macroflow has flows again.
    pub(crate) fn revive(&mut self, user: Option<User>, macroflow: u64) {
        if let Some(queue) = self.lingering.get_mut(&user) {
            queue.retain(|&(_, other)| other != macroflow);
        }
    }

    /// Something is known of a path that is not in use.
    pub(crate) fn recall(&mut self, destination: Destination, learnt: Learnt, age: Duration) {
        if self.recalled.len() >= PATHS && !self.recalled.contains_key(&destination) {
            self.recalled.pop_first();
        }
        self.recalled.insert(destination, (learnt, age));
    }

    /// What is known of a path that comes into use.
    pub(crate) fn take(&mut self, destination: &Destination) -> Option<(Learnt, Duration)> {
        self.recalled.remove(destination)
    }

    /// Something was learnt.
    pub(crate) fn learn(&mut self, destination: Destination, learnt: Learnt) {
        if self.learnt.len() >= PATHS {
            self.learnt.pop_front();
        }
        self.learnt.push_back((destination, learnt));
    }

    pub(crate) fn poll_learnt(&mut self) -> Option<(Destination, Learnt)> {
        self.learnt.pop_front()
    }
}
