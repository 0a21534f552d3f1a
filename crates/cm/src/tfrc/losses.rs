//! Detection of loss events from missing and marked packets (RFC 5348 §5.1, §5.2, §5.3).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

use super::intervals::{INTERVALS, LossIntervals};

/// Number of later packets that must arrive before a missing one counts as lost: `NDUPACK` (RFC 5348 §5.1).
const NDUPACK: u8 = 3;
/// Maximum number of runs of lost packets kept, in case one of them arrives late. Chosen by us. A higher value takes
/// more memory and takes back older losses.
const MAX_RUNS: usize = 256;
/// Round trips at the end of a gap that are divided into loss events. Chosen by us: more than the nine intervals that
/// count. A higher value takes more time for a long gap.
const MAX_GAP_ROUNDS: u64 = 64;
/// Minimum RTT: loss events are separated by at least one RTT. Chosen by us: below any path's. A higher value merges
/// loss events of very short paths.
const MIN_RTT: Duration = Duration::from_micros(1);

/// Result of a packet's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News {
    /// The packet is neither a duplicate nor too old.
    pub(super) is_new: bool,
    /// It has the highest sequence number so far.
    pub(super) is_highest: bool,
    /// A loss event was detected.
    pub(super) began: bool,
    /// The packet was late, and a loss event was removed.
    pub(super) removed: bool,
}

/// Missing packets, and the loss events that they form.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses {
    /// Sequence number of the first packet, as far as known.
    origin: Option<u64>,
    highest: Option<(u64, Instant)>,
    /// Missing packets that are not yet lost, in order.
    missing: Vec<Missing>,
    /// Runs of lost or marked packets, in order.
    runs: VecDeque<Run>,
    events: VecDeque<Event>,
    /// Number of loss events so far.
    total: u64,
    intervals: LossIntervals,
    /// Assumed length of the interval before the first loss event.
    first: Option<f64>,
}

/// Run of consecutive packets.
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
    /// Later packets that have arrived.
    above: u8,
}

/// Packets received before and after a gap: S_before and S_after of RFC 5348 §5.2.
#[derive(Clone, Copy, Debug)]
struct Gap {
    before: (u64, Instant),
    after: (u64, Instant),
}

#[derive(Clone, Debug)]
struct Event {
    start: u64,
    at: Instant,
    /// Loss intervals before this event, in case it is removed.
    before: LossIntervals,
}

impl Gap {
    fn none(seq: u64, at: Instant) -> Self {
        Self { before: (seq, at), after: (seq, at) }
    }

    /// Nominal arrival time of a packet in the gap.
    fn nominal(&self, seq: u64) -> Instant {
        let packets = self.after.0.saturating_sub(self.before.0);
        if packets == 0 {
            return self.after.1;
        }
        let time = u128::from(self.after.1.saturating_since(self.before.1).as_nanos());
        let share = time * u128::from(seq.saturating_sub(self.before.0)) / u128::from(packets);
        self.before.1 + Duration::from_nanos(share as u64)
    }

    /// First packet with a nominal arrival time after `at`, if any.
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
    /// Creates a detector that knows the first sequence number, and so notices if that packet is missing.
    pub(super) fn expecting(first: u64) -> Self {
        Self { origin: Some(first), ..Self::default() }
    }

    /// Current loss event rate (RFC 5348 §5.4); 0 before the first loss event.
    pub(super) fn rate(&self) -> f64 {
        self.intervals.loss_event_rate(self.current() as f64)
    }

    /// Packets in the current loss interval, which begins with the newest loss event (RFC 5348 §5.3).
    pub(super) fn current(&self) -> u64 {
        match (self.events.back(), self.highest) {
            (Some(event), Some((highest, _))) => highest.saturating_sub(event.start) + 1,
            _ => 0,
        }
    }

    /// Number of loss events so far, reduced when a late packet removes one.
    pub(super) fn events(&self) -> u64 {
        self.total
    }

    pub(super) fn intervals(&self) -> &LossIntervals {
        &self.intervals
    }

    /// Processes an arrival. `first` is called at most once for the length of the interval before the first loss event,
    /// with whether no packet at all came before that event.
    pub(super) fn arrive(
        &mut self,
        now: Instant,
        seq: u64,
        marked: bool,
        rtt: Duration,
        first: &dyn Fn(bool) -> f64,
    ) -> News {
        let rtt = rtt.max(MIN_RTT);
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
                // The first packets are missing: nothing arrived before them from which to interpolate their arrival.
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

    /// Processes a late packet, which is no longer missing or lost. Returns whether it was either.
    fn fill(&mut self, seq: u64, marked: bool, first: &dyn Fn(bool) -> f64) -> bool {
        if let Some(place) = self.missing.iter().position(|missing| missing.run.contains(seq)) {
            let missing = self.missing.remove(place);
            let (below, above) = missing.run.without(seq);
            for run in [above, below].into_iter().flatten() {
                self.missing.insert(place, Missing { run, above: missing.above });
            }
            if marked {
                // A marked packet counts as lost, and so do missing ones before it (RFC 5348 §5.1).
                self.give_up(seq, first);
                self.note(Run { first: seq, last: seq, ..missing.run }, first);
            }
            return true;
        }
        let Some(place) = self.runs.iter().position(|run| run.contains(seq)) else { return false };
        // A mark is a congestion signal as much as a loss, so that the packet stays in its run.
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

    /// Declares packets lost that are missing with enough later arrivals, or before `marked`.
    fn give_up(&mut self, marked: u64, first: &dyn Fn(bool) -> f64) {
        let is_lost = |missing: &Missing| missing.above >= NDUPACK || missing.run.last < marked;
        // Earlier packets have more later arrivals, so that the lost ones come first.
        while self.missing.first().is_some_and(is_lost) {
            let missing = self.missing.remove(0);
            self.note(missing.run, first);
        }
    }

    /// Recomputes the loss events from the one that began with `seq`, if there is one, without that packet.
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

    /// Adds lost or marked packets, later than all previous ones.
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
        let counts = run.gap.after.1.saturating_sub(run.rtt * MAX_GAP_ROUNDS);
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

    /// Parts of the run before and after a packet.
    fn without(self, seq: u64) -> (Option<Self>, Option<Self>) {
        let below = (self.first < seq).then(|| Self { last: seq - 1, ..self });
        let above = (seq < self.last).then(|| Self { first: seq + 1, ..self });
        (below, above)
    }
}
