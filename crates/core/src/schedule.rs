//! Scheduler of an endpoint's connections: those ready now, and the timeouts of the others; idle ones cost nothing.

use std::collections::{BTreeSet, VecDeque};
use std::hash::Hash;

use crate::id_map::IdMap;
use crate::time::Instant;

/// Ready queue, served round robin, and timeouts. `K` identifies a connection.
///
/// ```
/// use timeous_core::{Instant, Schedule};
/// let mut schedule = Schedule::default();
/// schedule.make_ready('a');
/// schedule.make_ready('b');
/// assert_eq!(schedule.first_ready(), Some('a'));
/// schedule.take_turns();
/// assert_eq!(schedule.first_ready(), Some('b'));
/// schedule.first_is_done();
/// schedule.set_timeout('b', Some(Instant::from_nanos(7)));
/// assert_eq!(schedule.next_due(Instant::from_nanos(7)), Some('b'));
/// ```
#[derive(Clone, Debug)]
pub struct Schedule<K> {
    queue: VecDeque<K>,
    timeouts: BTreeSet<(Instant, K)>,
    states: IdMap<K, State>,
}

/// State of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    is_queued: bool,
    timeout: Option<Instant>,
}

impl<K> Default for Schedule<K> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), timeouts: BTreeSet::new(), states: IdMap::default() }
    }
}

impl<K: Copy + Ord + Hash> Schedule<K> {
    /// Marks a connection as ready, as it may have something to send.
    pub fn make_ready(&mut self, id: K) {
        if !std::mem::replace(&mut self.states.get_or_default(id).is_queued, true) {
            self.queue.push_back(id);
        }
    }

    /// Connection whose turn it is.
    pub fn first_ready(&self) -> Option<K> {
        self.queue.front().copied()
    }

    /// Moves the first ready connection, which has sent something, to the end.
    pub fn take_turns(&mut self) {
        if self.queue.len() > 1 {
            self.queue.rotate_left(1);
        }
    }

    /// Removes the first ready connection, which has nothing more to send.
    pub fn first_is_done(&mut self) {
        if let Some(state) = self.queue.pop_front().and_then(|id| self.states.get_mut(id)) {
            state.is_queued = false;
        }
    }

    /// Sets, replaces or removes a connection's timeout.
    pub fn set_timeout(&mut self, id: K, at: Option<Instant>) {
        let old = match self.states.get_mut(id) {
            Some(state) => std::mem::replace(&mut state.timeout, at),
            None if at.is_none() => return,
            None => self.states.insert(id, State { is_queued: false, timeout: at }).and_then(|state| state.timeout),
        };
        if old == at {
            return;
        }
        if let Some(old) = old {
            self.timeouts.remove(&(old, id));
        }
        if let Some(at) = at {
            self.timeouts.insert((at, id));
        }
    }

    /// Takes the next connection whose timeout has expired, and clears that timeout.
    pub fn next_due(&mut self, now: Instant) -> Option<K> {
        let &(_, id) = self.timeouts.first().filter(|&&(at, _)| at <= now)?;
        self.set_timeout(id, None);
        Some(id)
    }

    /// Earliest timeout.
    pub fn first_timeout(&self) -> Option<Instant> {
        self.timeouts.first().map(|&(at, _)| at)
    }

    /// Removes a connection.
    pub fn forget(&mut self, id: K) {
        self.set_timeout(id, None);
        if self.states.remove(id).is_some_and(|state| state.is_queued) {
            self.queue.retain(|&queued| queued != id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: char = 'a';
    const B: char = 'b';

    #[test]
    fn the_ready_take_turns_and_are_queued_once() {
        let mut schedule = Schedule::default();
        for id in [A, B, A] {
            schedule.make_ready(id);
        }
        assert_eq!(schedule.first_ready(), Some(A));
        schedule.take_turns();
        schedule.make_ready(A);
        let order: Vec<_> = std::iter::from_fn(|| {
            let first = schedule.first_ready();
            schedule.first_is_done();
            first
        })
        .collect();
        assert_eq!(order, [B, A]);
    }

    #[test]
    fn a_new_timeout_replaces_the_old_one() {
        let at = Instant::from_nanos;
        let mut schedule = Schedule::default();
        schedule.set_timeout(A, Some(at(5)));
        schedule.set_timeout(B, Some(at(7)));
        schedule.set_timeout(A, Some(at(9)));
        assert_eq!(schedule.first_timeout(), Some(at(7)));
        assert_eq!(schedule.next_due(at(8)), Some(B));
        assert_eq!(schedule.next_due(at(8)), None);
        schedule.make_ready(A);
        schedule.forget(A);
        assert_eq!((schedule.first_timeout(), schedule.first_ready()), (None, None));
    }
}
