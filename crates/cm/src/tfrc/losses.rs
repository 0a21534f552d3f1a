//! From packets that did not arrive, or arrived marked, to loss events (RFC 5348 §5.1, §5.2, §5.3).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use super::intervals::{INTERVALS, LossIntervals};

/// A packet is lost when so many with higher numbers have arrived (RFC 5348 §5.1).
const NDUPACK: u8 = 3;
/// So many runs of lost packets are remembered for the case that one of them arrives late.
const MAX_RUNS: usize = 256;
/// Of a gap that is longer, only the last so many round trips are divided into loss events: what is before them is
/// beyond the intervals that count.
const MAX_EVENTS_A_GAP: u64 = 64;
/// Losses are a round trip apart for separate events, and no round trip is shorter.
const LEAST_RTT: Duration = Duration::from_micros(1);

/// What the arrival of a packet brought to light.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// It is no duplicate and not too old.
    pub(super) is_new: bool,
    /// It has the highest number so far.
    pub(super) is_highest: bool,
    /// A loss event was found.
    pub(super) began: bool,
    /// It came late, and there is a loss event less for it.
    pub(super) removed: bool,
}

/// Which packets are missing, and the loss events that they make.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// The first packet of all, as far as is known.
    origin: Option<u64>,
    highest: Option<(u64, Instant)>,
    /// Missing, but by too few later packets to be lost. In order.
    missing: Vec<Missing>,
    /// Lost or marked. In order.
    runs: VecDeque<Run>,
    events: VecDeque<Event>,
    /// Loss events so far.
    total: u64,
    intervals: LossIntervals,
    /// The length that was made up for the interval before the first event.
    first: Option<f64>,
}

/// Packets in a row.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u64,
    last: u64,
    gap: Gap,
    rtt: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Missing {
    run: Run,
    /// Packets above it that have arrived.
    above: u8,
}

/// The packets that arrived around a gap: S_before and S_after of RFC 5348 §5.2.
#[derive(Clone, Copy, Debug)]
struct Gap {
    before: (u64, Instant),
    after: (u64, Instant),
}

#[derive(Clone, Debug)]
struct Event {
    start: u64,
    at: Instant,
    /// The intervals as they were before it: what is known if it turns out to be none.
    before: LossIntervals,
}

impl Gap {
    fn none(seq: u64, at: Instant) -> Self {
        Self { before: (seq, at), after: (seq, at) }
    }

    /// When a packet of the gap would have arrived.
    fn nominal(&self, seq: u64) -> Instant {
        let packets = self.after.0.saturating_sub(self.before.0);
        if packets == 0 {
            return self.after.1;
        }
        let time = u128::from(self.after.1.saturating_since(self.before.1).as_nanos());
        let share = time * u128::from(seq.saturating_sub(self.before.0)) / u128::from(packets);
        self.before.1 + Duration::from_nanos(share as u64)
    }

    /// The first packet that would have arrived after `at`, if any would.
    fn first_after(&self, at: Instant) -> Option<u64> {
        let time = u128::from(self.after.1.saturating_since(self.before.1).as_nanos());
        let Some(passed) = at.checked_since(self.before.1) else { return Some(self.before.0) };
        let packets = u128::from(self.after.0.saturating_sub(self.before.0));
        let whole = (u128::from(passed.as_nanos()) + 1) * packets;
        let seq = self.before.0.checked_add(u64::try_from(whole.div_ceil(time.max(1))).ok()?)?;
        (time > 0).then_some(seq)
    }
}

impl Losses {
    /// The first packet will have the number `first`: if others come before it, it is missing.
    pub(super) fn expecting(first: u64) -> Self {
        Self { origin: Some(first), ..Self::default() }
    }

    /// The loss event rate by now (RFC 5348 §5.4); 0 before the first loss event.
    pub(super) fn rate(&self) -> f64 {
        self.intervals.loss_event_rate(self.current() as f64)
    }

    /// Packets of the current interval, the one with the newest loss event (RFC 5348 §5.3).
    pub(super) fn current(&self) -> u64 {
        match (self.events.back(), self.highest) {
            (Some(event), Some((highest, _))) => highest.saturating_sub(event.start) + 1,
            _ => 0,
        }
    }

    /// Loss events so far; fewer when a packet comes late.
    pub(super) fn events(&self) -> u64 {
        self.total
    }

    pub(super) fn intervals(&self) -> &LossIntervals {
        &self.intervals
    }

    /// A packet arrived. `first` is asked at most once for the length of the interval before the first loss event, and told
    /// whether no packet at all came before it.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        seq: u64,
        marked: bool,
        rtt: Duration,
        first: &dyn Fn(bool) -> f64,
    ) -> News {
        let rtt = rtt.max(LEAST_RTT);
        let events = self.total;
        let mut news = match self.highest {
            Some((highest, at)) if seq > highest => {
                self.miss(Run {
                    first: highest + 1,
                    last: seq - 1,
                    gap: Gap { before: (highest, at), after: (seq, now) },
                    rtt,
                });
                News { is_new: true, is_highest: true, ..News::default() }
            }
            None => {
                let origin = *self.origin.get_or_insert(seq);
                if seq < origin {
                    return News::default();
                }
                // The first ones are missing: nothing arrived before them from which to reckon when they were due.
                self.miss(Run { first: origin, last: seq.wrapping_sub(1), gap: Gap::none(seq, now), rtt });
                News { is_new: true, is_highest: true, ..News::default() }
            }
            Some(_) => News { is_new: self.fill(seq, marked, first), ..News::default() },
        };
        if !news.is_new {
            return news;
        }
        if news.is_highest {
            self.highest = Some((seq, now));
        }
        for missing in self.missing.iter_mut().filter(|missing| missing.run.last < seq) {
            missing.above += 1;
        }
        self.give_up(if marked { seq } else { 0 }, first);
        if marked && news.is_highest {
            self.note(Run { first: seq, last: seq, gap: Gap::none(seq, now), rtt }, first);
        }
        (news.began, news.removed) = (self.total > events, self.total < events);
        news
    }

    fn miss(&mut self, run: Run) {
        if run.first <= run.last && run.last < run.gap.after.0 {
            self.missing.push(Missing { run, above: 0 });
        }
    }

    /// A packet came late: it is missing no more, or not lost after all. Says whether it was either.
    fn fill(&mut self, seq: u64, marked: bool, first: &dyn Fn(bool) -> f64) -> bool {
        if let Some(place) = self.missing.iter().position(|missing| missing.run.contains(seq)) {
            let missing = self.missing.remove(place);
            let (below, above) = missing.run.without(seq);
            for run in [above, below].into_iter().flatten() {
                self.missing.insert(place, Missing { run, above: missing.above });
            }
            if marked {
                // As if it were lost, and so is what is missing below it (RFC 5348 §5.1).
                self.give_up(seq, first);
                self.note(Run { first: seq, last: seq, ..missing.run }, first);
            }
            return true;
        }
        let Some(place) = self.runs.iter().position(|run| run.contains(seq)) else { return false };
        // Marked, it is a sign of congestion as much as lost.
        if !marked {
            let run = self.runs[place];
            self.runs.remove(place);
            let (below, above) = run.without(seq);
            for run in [above, below].into_iter().flatten() {
                self.runs.insert(place, run);
            }
            self.divide_anew(seq, first);
        }
        true
    }

    /// What is missing is lost, if enough came after it or if it is below `marked`.
    fn give_up(&mut self, marked: u64, first: &dyn Fn(bool) -> f64) {
        let is_lost = |missing: &Missing| missing.above >= NDUPACK || missing.run.last < marked;
        // Who is below has seen more arrive, so the lost ones come first.
        while self.missing.first().is_some_and(is_lost) {
            let missing = self.missing.remove(0);
            self.note(missing.run, first);
        }
    }

    /// If a loss event began with `seq`, all from there on is divided into events without it.
    fn divide_anew(&mut self, seq: u64, first: &dyn Fn(bool) -> f64) {
        let Some(place) = self.events.iter().position(|event| event.start == seq) else { return };
        self.intervals = self.events[place].before;
        self.total -= (self.events.len() - place) as u64;
        self.events.truncate(place);
        let runs: Vec<Run> = self.runs.iter().filter(|run| run.last > seq).copied().collect();
        for run in runs {
            self.divide(Run { first: run.first.max(seq), ..run }, first);
        }
    }

    /// Packets are lost or marked, above all that were before.
    fn note(&mut self, run: Run, first: &dyn Fn(bool) -> f64) {
        self.runs.push_back(run);
        self.divide(run, first);
        let oldest = self.events.front().map_or(0, |event| event.start);
        while self.runs.len() > MAX_RUNS || self.runs.front().is_some_and(|run| run.last < oldest) {
            self.runs.pop_front();
        }
    }

    /// Finds the loss events that begin in a run.
    fn divide(&mut self, run: Run, first: &dyn Fn(bool) -> f64) {
        let mut seq = run.first;
        let counts = run.gap.after.1.saturating_sub(run.rtt * MAX_EVENTS_A_GAP);
        if run.gap.nominal(seq) < counts {
            seq = run.gap.first_after(counts).map_or(seq, |later| later.clamp(seq, run.last));
        }
        loop {
            if let Some(event) = self.events.back() {
                let until = event.at + run.rtt;
                if run.gap.nominal(seq) <= until {
                    match run.gap.first_after(until) {
                        Some(later) if later <= run.last => seq = later.max(seq + 1),
                        _ => return,
                    }
                    if seq > run.last {
                        return;
                    }
                    continue;
                }
            }
            self.begin(seq, run.gap.nominal(seq), first);
        }
    }

    fn begin(&mut self, start: u64, at: Instant, first: &dyn Fn(bool) -> f64) {
        let before = self.intervals;
        let length = match self.events.back() {
            Some(event) => start.saturating_sub(event.start) as f64,
            None => *self.first.get_or_insert_with(|| first(self.origin == Some(start))),
        };
        self.intervals.close(length);
        self.events.push_back(Event { start, at, before });
        self.total += 1;
        if self.events.len() > INTERVALS + 1 {
            self.events.pop_front();
        }
    }
}

impl Run {
    fn contains(&self, seq: u64) -> bool {
        (self.first..=self.last).contains(&seq)
    }

    /// What is below and above a packet of it.
    fn without(self, seq: u64) -> (Option<Self>, Option<Self>) {
        let below = (self.first < seq).then(|| Self { last: seq - 1, ..self });
        let above = (seq < self.last).then(|| Self { first: seq + 1, ..self });
        (below, above)
    }
}
