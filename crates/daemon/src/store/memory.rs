//! In-memory entries of the path memory: merged, aged and bounded.

use std::collections::{BTreeMap, BTreeSet};

use timeous_cm::{Destination, Learnt, User};
use timeous_core::{Duration, Rate};

use crate::wall::WallTime;

/// Maximum number of paths. Beyond it the user with the most entries loses the oldest, so that no user can crowd out others.
pub const CAPACITY: usize = 4_096;
/// Maximum age of an entry. A window is worthless long before; an RTT may still be useful.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3_600);
/// Age from which an entry is replaced instead of merged: Linux, too, considers its metrics of a host outdated after an hour
/// (`TCP_METRICS_TIMEOUT`).
const MERGE: Duration = Duration::from_secs(3_600);
/// Interval of scans for entries that are too old.
const PRUNE_EVERY: Duration = Duration::from_secs(3_600);

/// Remembered state of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remembered {
    /// The path.
    pub destination: Destination,
    /// Learned state.
    pub learnt: Learnt,
    /// Age of that state.
    pub age: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) learnt: Learnt,
    pub(super) at: WallTime,
}

/// Entries, and those changed since they were last [taken](Self::take_changes).
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: BTreeMap<Destination, Entry>,
    changed: BTreeSet<Destination>,
    pruned: Option<WallTime>,
}

impl Memory {
    /// Adds an entry read from the disk.
    pub(super) fn restore(&mut self, destination: Destination, entry: Entry) {
        self.entries.insert(destination, entry);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A time in the future comes from a clock that was, or is, wrong: its distance counts as age.
    pub(super) fn recall(&self, destination: &Destination, now: WallTime) -> Option<(Learnt, Duration)> {
        let entry = self.entries.get(destination)?;
        let age = now.apart(entry.at);
        (age <= KEEP).then_some((entry.learnt, age))
    }

    pub(super) fn learn(&mut self, destination: Destination, learnt: Learnt, now: WallTime) {
        let old = self.entries.get(&destination).filter(|old| now.apart(old.at) <= MERGE);
        let learnt = old.map_or(learnt, |old| merge(&old.learnt, &learnt));
        self.entries.insert(destination, Entry { learnt, at: now });
        self.changed.insert(destination);
        if self.pruned.is_none_or(|last| now.apart(last) >= PRUNE_EVERY) {
            self.prune(now);
        }
        while self.entries.len() > CAPACITY {
            self.evict(now);
        }
    }

    pub(super) fn remembered(&self, now: WallTime) -> Vec<Remembered> {
        let known = |(&destination, entry): (&Destination, &Entry)| {
            let age = now.apart(entry.at);
            (age <= KEEP).then_some(Remembered { destination, learnt: entry.learnt, age })
        };
        self.entries.iter().filter_map(known).collect()
    }

    pub(super) fn forget(&mut self, which: impl Fn(&Destination) -> bool) -> usize {
        let before = self.entries.len();
        let changed = &mut self.changed;
        self.entries.retain(|destination, _| {
            let goes = which(destination);
            if goes {
                changed.insert(*destination);
            }
            !goes
        });
        before - self.entries.len()
    }

    /// Removes entries that are too old, and those beyond the capacity.
    pub(super) fn prune(&mut self, now: WallTime) {
        self.pruned = Some(now);
        let old: BTreeSet<_> =
            self.entries.iter().filter(|(_, entry)| now.apart(entry.at) > KEEP).map(|(&to, _)| to).collect();
        self.forget(|destination| old.contains(destination));
        while self.entries.len() > CAPACITY {
            self.evict(now);
        }
    }

    /// Removes the oldest entry of the user with the most entries.
    fn evict(&mut self, now: WallTime) {
        let mut counts = BTreeMap::<Option<User>, usize>::new();
        self.entries.keys().for_each(|destination| *counts.entry(destination.user).or_default() += 1);
        let Some((&most, _)) = counts.iter().max_by_key(|&(_, count)| count) else { return };
        let theirs = self.entries.iter().filter(|(destination, _)| destination.user == most);
        let oldest = theirs.max_by_key(|(_, entry)| now.apart(entry.at)).map(|(&destination, _)| destination);
        if let Some(oldest) = oldest {
            self.entries.remove(&oldest);
            self.changed.insert(oldest);
        }
    }

    /// Returns the entries changed or removed since the last call.
    pub(super) fn take_changes(&mut self) -> Vec<(Destination, Option<Entry>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|destination| (destination, self.entries.get(&destination).copied())).collect()
    }

    /// Marks entries as changed again, after a failed write.
    pub(super) fn put_back(&mut self, changes: &[(Destination, Option<Entry>)]) {
        self.changed.extend(changes.iter().map(|(destination, _)| *destination));
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }
}

/// Merges the old and the new state of a path: their mean, as RFC 9040 §6.2 suggests, so that one odd connection does not dominate. Values
/// that bound the sending never exceed the newest ones.
fn merge(old: &Learnt, new: &Learnt) -> Learnt {
    let mean = |a: Duration, b: Duration| a.min(b) + Duration::from_nanos(a.abs_diff(b).as_nanos() / 2);
    let cautious = |old: u64, new: u64| new.min(old.midpoint(new));
    Learnt {
        window: cautious(old.window, new.window),
        ssthresh: new.ssthresh.map(|new| old.ssthresh.map_or(new, |old| cautious(old, new))),
        srtt: mean(old.srtt, new.srtt),
        rttvar: mean(old.rttvar, new.rttvar),
        min_rtt: old.min_rtt.min(new.min_rtt),
        rate: Rate::from_bps(cautious(old.rate.as_bps(), new.rate.as_bps())),
        loss_ppm: old.loss_ppm.midpoint(new.loss_ppm),
    }
}
