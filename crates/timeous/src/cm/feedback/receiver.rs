//! The receiver's half: record of received packets, and acknowledgement scheduling.

use timeous_core::{Duration, Instant};

use super::ack::{Ack, MAX_RUNS, Run};

/// Default number of packets per acknowledgement (RFC 1122 §4.2.3.2).
const PACKETS: u32 = 2;
/// Default acknowledgement delay: shorter than TCP's (RFC 9293 §3.8.6.3: below 500 ms), so that the sender can still
/// respond to a loss. Chosen by us: a higher value sends fewer acknowledgements.
const DELAY: Duration = Duration::from_millis(20);
/// Greatest valid packet number; no sender gets that far. Chosen by us: far below overflow.
const LAST: u64 = u64::MAX / 2;

/// Records received packets, and schedules acknowledgements.
///
/// Duplicates count once. A gap, and a packet that fills one, are acknowledged at once (RFC 5681 §4.2).
#[derive(Clone, Debug)]
pub struct Acks {
    every: u32,
    delay: Duration,
    /// Received ranges, oldest first, each as oldest and newest packet.
    ranges: Vec<(u64, u64)>,
    /// Packets below this number are no longer recorded.
    floor: u64,
    /// Arrival time of the newest packet.
    newest_at: Instant,
    marked: u32,
    /// Packets not acknowledged yet, and arrival time of the first of them.
    untold: u32,
    untold_since: Instant,
    at_once: bool,
}

impl Default for Acks {
    /// An acknowledgement for every other packet, or after 20 ms.
    fn default() -> Self {
        Self::every(PACKETS, DELAY)
    }
}

impl Acks {
    /// Acknowledges after `packets` packets, or `delay` after the first; gaps at once in any case.
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

    /// Notes a received packet. Returns `false` for a duplicate, or for a packet too old to know: an application may
    /// want to ignore it.
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
        // A duplicate means that its acknowledgement was lost.
        self.at_once |= !is_next;
        is_new
    }

    /// Notes a packet received with an ECN-CE mark, which is acknowledged at once.
    pub fn received_marked(&mut self, now: Instant, number: u64) -> bool {
        self.marked = self.marked.wrapping_add(1);
        let is_new = self.received(now, number);
        self.at_once = true;
        is_new
    }

    /// Returns the acknowledgement that is due, if any.
    pub fn poll_ack(&mut self, now: Instant) -> Option<Ack> {
        let due = self.poll_timeout()?;
        (due <= now).then(|| self.acknowledge(now)).flatten()
    }

    /// Time at which the next acknowledgement is due; [`Instant::ZERO`] if at once.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.at_once || self.untold >= self.every {
            return Some(Instant::ZERO);
        }
        (self.untold > 0).then(|| self.untold_since + self.delay)
    }

    /// Returns an acknowledgement, due or not: for an application that piggybacks it. `None` before the first packet.
    pub fn acknowledge(&mut self, now: Instant) -> Option<Ack> {
        let newest = self.newest()?;
        let mut above = newest + 1;
        // A gap too large for its field was made by an attacker: nothing below it is reported.
        let runs = self.ranges.iter().rev().map_while(|&(oldest, newest)| {
            let missing = u32::try_from(above - 1 - newest).ok()?;
            let there = newest - oldest + 1;
            // The rest of a run that does not fit is old.
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

    /// Records `number`; `false` if it was recorded before.
    fn insert(&mut self, number: u64) -> bool {
        if number < self.floor {
            return false;
        }
        // Index after the last range that begins at or below it.
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
            // Older packets were acknowledged, or are lost.
            self.floor = self.ranges.remove(0).1 + 1;
        }
        true
    }
}
