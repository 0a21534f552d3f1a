//! What is remembered, within bounds: merged, aged and pruned.

use std::collections::{BTreeMap, BTreeSet};

use timeous_cm::{Destination, Learnt, User};
use timeous_core::{Duration, Rate};

use crate::wall::WallTime;

/// How many paths are remembered. Beyond it the user who has the most loses the oldest, so that nobody can crowd out others.
pub const CAPACITY: usize = 4_096;
/// For how long a path is remembered that nobody uses. A window is worth nothing long before; a round trip may still be.
pub const KEEP: Duration = Duration::from_secs(7 * 24 * 3_600);
/// What is older is replaced by what is learnt anew, what is younger is merged with it: Linux, too, takes what it knows of a
/// host for outdated after an hour (`TCP_METRICS_TIMEOUT`).
const MERGE: Duration = Duration::from_secs(3_600);
/// How often all entries are looked at for those that are too old.
const PRUNE_EVERY: Duration = Duration::from_secs(3_600);

/// What is remembered of one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Remembered {
    /// The path.
    pub destination: Destination,
    /// What was learnt of it.
    pub learnt: Learnt,
    /// How long ago.
    pub age: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) learnt: Learnt,
    pub(super) at: WallTime,
}

/// Entries and which of them have changed since they were last [taken](Self::take_changes).
#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: BTreeMap<Destination, Entry>,
    changed: BTreeSet<Destination>,
    pruned: Option<WallTime>,
}

impl Memory {
    /// An entry as it is on the disk.
    pub(super) fn restore(&mut self, destination: Destination, entry: Entry) {
        self.entries.insert(destination, entry);
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A time that lies ahead was written under a clock that was wrong, or is wrong now: it counts as old as it lies ahead.
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

    /// Forgets what is too old, and what is too much.
    pub(super) fn prune(&mut self, now: WallTime) {
        self.pruned = Some(now);
        let old: BTreeSet<_> =
            self.entries.iter().filter(|(_, entry)| now.apart(entry.at) > KEEP).map(|(&to, _)| to).collect();
        self.forget(|destination| old.contains(destination));
        while self.entries.len() > CAPACITY {
            self.evict(now);
        }
    }

    /// Forgets the oldest entry of the user who has the most.
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

    /// What has changed since it was last asked: entries, or that they are gone.
    pub(super) fn take_changes(&mut self) -> Vec<(Destination, Option<Entry>)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|destination| (destination, self.entries.get(&destination).copied())).collect()
    }

    /// What was taken could not be written: it counts as changed again.
    pub(super) fn put_back(&mut self, changes: &[(Destination, Option<Entry>)]) {
        self.changed.extend(changes.iter().map(|(destination, _)| *destination));
    }

    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }
}

/// What is kept of a path that was known and is seen anew: the mean of both, as RFC 9040 §6.2 suggests, so that one odd
/// connection does not count for all. What says how much may be sent is never more than what was seen last.
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
