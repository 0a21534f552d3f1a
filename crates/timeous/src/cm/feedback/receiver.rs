//! The receiver's half: which packets came, and when to say so.

use timeous_core::{Duration, Instant};

use super::ack::{Ack, MAX_RUNS, Run};

/// An acknowledgement waits for this many packets unless it was told otherwise: every other one (RFC 1122 §4.2.3.2).
const PACKETS: u32 = 2;
/// Nor does it wait for longer than this: shorter than TCP's, since a loss should be heard of while something can be
/// done.
const DELAY: Duration = Duration::from_millis(20);
/// No sender gets so far in this world.
const LAST: u64 = u64::MAX / 2;

/// Notes which packets came, and says when an acknowledgement is due.
///
/// What comes twice counts once. A gap, and what fills one, is told of at once (RFC 5681 §4.2).
#[derive(Clone, Debug)]
pub struct Acks {
    every: u32,
    delay: Duration,
    /// What came, oldest first: ranges with gaps between them, each as its oldest and its newest packet.
    ranges: Vec<(u64, u64)>,
    /// Below this it is not noted any more what came.
    floor: u64,
    /// When the newest of them came.
    newest_at: Instant,
    marked: u32,
    /// Packets that no acknowledgement has told of yet, and since when.
    untold: u32,
    untold_since: Instant,
    at_once: bool,
}

impl Default for Acks {
    /// For every other packet, or after 20 ms.
    fn default() -> Self {
        Self::every(PACKETS, DELAY)
    }
}

impl Acks {
    /// Acknowledges when `packets` have come, or one has waited for `delay`. Even with long ones a gap is told of at
    /// once.
    #[must_use]
    pub fn every(packets: u32, delay: Duration) -> Self {
        Self {
            every: packets.max(1),
            delay,
            ranges: Vec::new(),
            floor: 0,
            newest_at: Instant::ZERO,
            marked: 0,
            untold: 0,
            untold_since: Instant::ZERO,
            at_once: false,
        }
    }

    /// A packet came. `false` if it had come before, or so long ago that nobody knows any more: an application that
    /// minds passes it over.
    pub fn received(&mut self, now: Instant, number: u64) -> bool {
        if number > LAST {
            return false;
        }
        let newest = self.newest();
        if newest.is_none_or(|newest| number > newest) {
            self.newest_at = now;
        }
        let is_next = newest.map_or(0, |newest| newest + 1) == number;
        let is_new = self.insert(number);
        if self.untold == 0 {
            self.untold_since = now;
        }
        self.untold = self.untold.saturating_add(1);
        // What comes again was not known to have come: its acknowledgement was lost.
        self.at_once |= !is_next;
        is_new
    }

    /// A packet came that a router had marked (ECN-CE): told of at once.
    pub fn received_marked(&mut self, now: Instant, number: u64) -> bool {
        self.marked = self.marked.wrapping_add(1);
        let is_new = self.received(now, number);
        self.at_once = true;
        is_new
    }

    /// The acknowledgement that is due, if one is.
    pub fn poll_ack(&mut self, now: Instant) -> Option<Ack> {
        let due = self.poll_timeout()?;
        (due <= now).then(|| self.acknowledge(now)).flatten()
    }

    /// When the next acknowledgement is due, if no other packet comes; [`Instant::ZERO`] if at once.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.at_once || self.untold >= self.every {
            return Some(Instant::ZERO);
        }
        (self.untold > 0).then(|| self.untold_since + self.delay)
    }

    /// An acknowledgement whether it is due or not: for an application that tells on packets of its own. `None` if
    /// nothing came so far.
    pub fn acknowledge(&mut self, now: Instant) -> Option<Ack> {
        let newest = self.newest()?;
        let mut above = newest + 1;
        // A gap that no number holds was made by somebody who means no good: nothing is told of what is below it.
        let runs = self.ranges.iter().rev().map_while(|&(oldest, newest)| {
            let missing = u32::try_from(above - 1 - newest).ok()?;
            let there = newest - oldest + 1;
            // What does not fit is old.
            above = oldest.max(newest.saturating_sub(u64::from(u32::MAX) - 1));
            Some(Run { missing, there: u32::try_from(there).unwrap_or(u32::MAX) })
        });
        let runs = runs.collect();
        (self.untold, self.at_once) = (0, false);
        Some(Ack { newest, delay: now.saturating_since(self.newest_at), marked: self.marked, runs })
    }

    fn newest(&self) -> Option<u64> {
        self.ranges.last().map(|&(_, newest)| newest)
    }

    /// Notes that `number` came; `false` if that was known.
    fn insert(&mut self, number: u64) -> bool {
        if number < self.floor {
            return false;
        }
        // Above the last range that begins at or below it.
        let place = self.ranges.partition_point(|&(oldest, _)| oldest <= number);
        if place.checked_sub(1).is_some_and(|before| self.ranges[before].1 >= number) {
            return false;
        }
        let follows = place.checked_sub(1).filter(|&before| self.ranges[before].1 + 1 == number);
        let precedes = self.ranges.get(place).is_some_and(|&(oldest, _)| number + 1 == oldest);
        match (follows, precedes) {
            (Some(before), true) => self.ranges[before].1 = self.ranges.remove(place).1,
            (Some(before), false) => self.ranges[before].1 = number,
            (None, true) => self.ranges[place].0 = number,
            (None, false) => self.ranges.insert(place, (number, number)),
        }
        if self.ranges.len() > MAX_RUNS {
            // What is so old was told of, or is lost.
            self.floor = self.ranges.remove(0).1 + 1;
        }
        true
    }
}
