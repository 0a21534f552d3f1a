//! Loss history of the receiver: missing packets grouped into loss intervals by the window counter (RFC 4342 §6.1,
//! §10.2).

use std::collections::VecDeque;

use super::average::{Length, loss_event_rate};
use super::counter::{ROUND_TRIP, distance};
use super::options::LossInterval;

/// Distance to the greatest number from which a missing packet is lost: "up to NDUPACK of the most recent sequence
/// numbers (including the sequence numbers of any holes) might temporarily not be part of any loss interval" (RFC 4342
/// §6.1).
const NDUPACK: u64 = 3;
/// Loss intervals kept for the rate and for reports: NINTERVAL + 1 (RFC 4342 §8.6.1).
pub(super) const KEPT_INTERVALS: usize = 9;
/// Maximum number of loss runs per interval; only these can be taken back if a packet arrives late. Chosen by us: a
/// higher value takes more memory.
const MAX_RUNS: usize = 64;
/// Maximum length of a short interval, in ticks: two round trips (RFC 5622 §8.4).
const MAX_SHORT: u64 = 2 * ROUND_TRIP as u64;

/// A packet received for the first time, numbered from the first packet of the half-connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) number: u64,
    /// The window counter, if it carries data.
    pub(super) counter: Option<u8>,
    pub(super) marked: bool,
    /// Packets without data right before it (NDP Count), or 0 if unknown.
    pub(super) no_data_before: u64,
}

/// Changes caused by an arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// Whether a loss event was found.
    pub(super) began: bool,
    /// Whether a loss event was revoked because its packet was only late.
    pub(super) removed: bool,
}

/// Consecutive packets that are in no interval yet, missing or without data.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    last: u64,
    /// Ticks of the packet before a hole; `None` for packets without data.
    hole: Option<u64>,
}

/// A loss interval; it ends where the next one begins.
#[derive(Clone, Debug, Default)]
struct Interval {
    first: u64,
    /// End of its lossy part; `None` for the very first interval.
    lossy: Option<u64>,
    /// Ticks of the packet before it.
    ticks: u64,
    /// Packets without data in it.
    no_data: u64,
    lost: u32,
    runs: Vec<(u64, u64)>,
    /// Synthetic data length of the very first interval (RFC 5348 §6.3.1).
    made_up: Option<f64>,
}

/// Loss history of a half-connection's receiver.
#[derive(Clone, Debug)]
pub(super) struct History {
    /// Greatest number received.
    highest: Option<u64>,
    /// Window counter of the newest data packet, and its value without wrapping.
    counter: Option<u8>,
    ticks: u64,
    /// Runs in no interval yet, in order, all within [`NDUPACK`] of the greatest number.
    pending: Vec<Run>,
    /// Loss intervals, oldest first; never empty.
    intervals: VecDeque<Interval>,
    /// Loss events so far, less the revoked ones.
    events: u64,
}

impl Default for History {
    fn default() -> Self {
        let intervals = VecDeque::from([Interval::default()]);
        Self { highest: None, counter: None, ticks: 0, pending: Vec::new(), intervals, events: 0 }
    }
}

impl History {
    /// Window counter of the newest data packet, without wrapping.
    pub(super) fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Notes a received packet. `first` computes the length of the interval before the first loss event.
    pub(super) fn arrive(&mut self, packet: Packet, first: &dyn Fn() -> f64) -> News {
        let events = self.events;
        if self.highest.is_none_or(|highest| packet.number > highest) {
            self.advance(packet, first);
        } else if !self.fill_hole(packet, first) {
            self.take_back(packet);
        }
        News { began: self.events > events, removed: self.events < events }
    }

    fn advance(&mut self, packet: Packet, first: &dyn Fn() -> f64) {
        let Packet { number, counter, marked, no_data_before } = packet;
        let (next, before) = (self.highest.map_or(0, |highest| highest + 1), self.ticks);
        let known = no_data_before.min(number - next);
        let holes_end = number - known;
        if next < holes_end {
            self.pending.push(Run { first: next, last: holes_end - 1, hole: Some(before) });
        }
        if known > 0 {
            self.pending.push(Run { first: holes_end, last: number - 1, hole: None });
        }
        match counter {
            Some(counter) => {
                self.ticks += self.counter.map_or(0, |last| u64::from(distance(last, counter)));
                self.counter = Some(counter);
            }
            None => self.pending.push(Run { first: number, last: number, hole: None }),
        }
        self.highest = Some(number);
        if marked && counter.is_some() {
            self.mark(number, before, first);
        } else if let Some(limit) = number.checked_sub(NDUPACK) {
            self.settle(limit, first);
        }
    }

    /// Notes a marked data packet: a loss event; packets still missing below it count as lost.
    fn mark(&mut self, number: u64, before: u64, first: &dyn Fn() -> f64) {
        if let Some(below) = number.checked_sub(1) {
            self.settle(below, first);
        }
        self.lose(number, number, before, first);
    }

    /// Settles all packets up to `limit` as lost or as without data.
    fn settle(&mut self, limit: u64, first: &dyn Fn() -> f64) {
        while let Some(&run) = self.pending.first().filter(|run| run.first <= limit) {
            let last = run.last.min(limit);
            if last == run.last {
                self.pending.remove(0);
            } else {
                self.pending[0].first = last + 1;
            }
            match run.hole {
                Some(before) => self.lose(run.first, last, before, first),
                None => self.newest().no_data += last - run.first + 1,
            }
        }
    }

    /// Records lost or marked packets above all earlier ones; `before`: ticks of the packet below them.
    fn lose(&mut self, start: u64, last: u64, before: u64, first: &dyn Fn() -> f64) {
        let newest = self.newest();
        let is_new = newest.lossy.is_none() || before.saturating_sub(newest.ticks) > u64::from(ROUND_TRIP);
        if is_new {
            if newest.lossy.is_none() && newest.made_up.is_none() {
                newest.made_up = Some(first());
            }
            self.events += 1;
            self.intervals.push_back(Interval { first: start, ticks: before, ..Interval::default() });
            if self.intervals.len() > KEPT_INTERVALS {
                self.intervals.pop_front();
            }
        }
        let newest = self.newest();
        newest.lossy = newest.lossy.max(Some(last));
        newest.lost = newest.lost.saturating_add(u32::try_from(last - start + 1).unwrap_or(u32::MAX));
        let is_full = newest.runs.len() == MAX_RUNS;
        match newest.runs.last_mut().filter(|_| is_full) {
            Some(run) => run.1 = last,
            None => newest.runs.push((start, last)),
        }
    }

    fn newest(&mut self) -> &mut Interval {
        self.intervals.back_mut().expect("there is always an interval")
    }

    /// Fills a hole that is not settled yet. Returns whether there was one.
    fn fill_hole(&mut self, packet: Packet, first: &dyn Fn() -> f64) -> bool {
        let number = packet.number;
        let holds = |run: &Run| run.hole.is_some() && (run.first..=run.last).contains(&number);
        let Some(place) = self.pending.iter().position(holds) else { return false };
        let run = self.pending.remove(place);
        let here = packet.counter.is_none().then_some(Run { first: number, last: number, hole: None });
        let above = (number < run.last).then_some(Run { first: number + 1, ..run });
        let below = (run.first < number).then(|| Run { last: number - 1, ..run });
        for run in [above, here, below].into_iter().flatten() {
            self.pending.insert(place, run);
        }
        if packet.marked && packet.counter.is_some() {
            self.mark(number, run.hole.unwrap_or(self.ticks), first);
        }
        true
    }

    /// Takes back a loss: the packet was only late. A late packet with a mark stays a loss event.
    fn take_back(&mut self, packet: Packet) {
        let number = packet.number;
        if packet.marked && packet.counter.is_some() {
            return;
        }
        let Some(place) = self.intervals.iter().rposition(|interval| interval.first <= number) else { return };
        let interval = &mut self.intervals[place];
        let Some(run) = interval.runs.iter().position(|run| (run.0..=run.1).contains(&number)) else { return };
        let (start, last) = interval.runs.remove(run);
        if number < last {
            interval.runs.insert(run, (number + 1, last));
        }
        if start < number {
            interval.runs.insert(run, (start, number - 1));
        }
        interval.lost -= 1;
        interval.no_data += u64::from(packet.counter.is_none());
        match (interval.runs.first(), interval.runs.last()) {
            (Some(&(start, _)), Some(&(_, last))) => (interval.first, interval.lossy) = (start, Some(last)),
            _ => self.merge_with_older(place),
        }
    }

    /// Merges an interval that has no losses left with the one before, if that is still known.
    fn merge_with_older(&mut self, place: usize) {
        let Some(older) = place.checked_sub(1) else { return };
        let Some(gone) = self.intervals.remove(place) else { return };
        self.events -= 1;
        let is_newest = place == self.intervals.len();
        let older = &mut self.intervals[older];
        older.no_data += gone.no_data;
        if older.lossy.is_none() && is_newest {
            older.made_up = None;
        }
    }

    /// Skip Length: newest packets that are in no interval yet.
    fn skip(&self) -> u64 {
        let hole = self.pending.iter().find(|run| run.hole.is_some());
        hole.map_or(0, |hole| self.highest.unwrap_or(0) + 1 - hole.first)
    }

    /// Each interval and the number after its end, newest first.
    fn with_ends(&self) -> impl Iterator<Item = (&Interval, u64)> {
        let end = self.highest.map_or(0, |highest| highest + 1 - self.skip());
        let ends = std::iter::once(end).chain(self.intervals.iter().rev().map(|interval| interval.first));
        self.intervals.iter().rev().zip(ends)
    }

    /// Packets without data up to `end` that are in no interval yet.
    fn no_data_pending(&self, end: u64) -> u64 {
        let runs = self.pending.iter().filter(|run| run.hole.is_none() && run.first < end);
        runs.map(|run| run.last.min(end - 1) - run.first + 1).sum()
    }

    fn data_length(&self, interval: &Interval, end: u64) -> f64 {
        if interval.lossy.is_none() {
            return interval.made_up.unwrap_or(0.0);
        }
        let is_newest = self.intervals.back().is_some_and(|newest| newest.first == interval.first);
        let pending = if is_newest { self.no_data_pending(end) } else { 0 };
        let packets = end.saturating_sub(interval.first);
        packets.saturating_sub(interval.no_data + pending).max(1) as f64
    }

    /// Contents of the options: Skip Length, intervals, and packets lost in each, newest first.
    pub(super) fn told(&self) -> (u8, Vec<LossInterval>, Vec<u32>) {
        let (mut intervals, mut lost) = (Vec::with_capacity(KEPT_INTERVALS), Vec::with_capacity(KEPT_INTERVALS));
        for (interval, end) in self.with_ends() {
            let lossless = end.saturating_sub(interval.lossy.map_or(interval.first, |lossy| lossy + 1));
            let lossy = interval.lossy.map_or(0, |lossy| lossy + 1 - interval.first);
            let entry = LossInterval {
                lossless: lossless as u32,
                lossy: lossy as u32,
                // ECT(0) is the only codepoint still in use (RFC 8311 §6), and its nonce is zero.
                nonce: false,
                data: self.data_length(interval, end).ceil() as u32,
            };
            let fits =
                lossless <= u64::from(super::options::MAX_LENGTH) && lossy <= u64::from(super::options::MAX_LOSSY);
            intervals.push(entry);
            lost.push(interval.lost.min(entry.lossy));
            if !fits {
                // The end of the next interval could not be expressed.
                break;
            }
        }
        (self.skip() as u8, intervals, lost)
    }

    /// Loss event rate p: 0 before the first loss event. `small`: as in CCID 4.
    pub(super) fn loss_event_rate(&self, small: bool) -> f64 {
        let mut after = self.ticks;
        let mut lengths: Vec<Length> = Vec::with_capacity(KEPT_INTERVALS);
        for (interval, end) in self.with_ends() {
            let short = interval.lossy.is_some() && after.saturating_sub(interval.ticks) <= MAX_SHORT;
            lengths.push(Length { data: self.data_length(interval, end), lost: interval.lost, short });
            after = interval.ticks;
        }
        let current = lengths.remove(0);
        loss_event_rate(lengths.into_iter().rev(), current, small)
    }
}

#[cfg(test)]
mod tests;
