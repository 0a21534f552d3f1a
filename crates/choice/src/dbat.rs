//! Dynamic Buffer Active Tuning (Hasan et al. §3): drops by average queue length, with early feedback to the source.
//!
//! `Min_Th` is the stream's rate times the path's delay, `Max_Th` twice that. Each arriving packet updates a weighted
//! average of the queue length. Above the midpoint of both thresholds the source is told, at most once per round trip;
//! above `Max_Th` only marked packets are sent.
//!
//! The paper's rules, and the choices where it is open:
//!
//! | Paper | Here |
//! |---|---|
//! | "delay" (§3.2, Fig. 5) | chosen: the path's minimum RTT ([`Delay`]), but at least 100 ms ([`Settings::least_delay`]) |
//! | unit of thresholds and queue | payload bytes; `Min_Th` is at least two of the stream's largest packets: at 80 kbit/s and 20 ms it would be a fifth of one |
//! | weight of the average | chosen: an eighth, at each arrival ([`Settings::parts`]) |
//! | average over idle times | RED's rule (Floyd & Jacobson 1993 §4) |
//! | contents of the feedback | queue length, its average, thresholds, reason, and a rate ([`Advice`]) |
//! | stream rate ("specified at connection", §3.2) | set by [`set_rate`](timeous_core::Adviser::set_rate), else measured over the last second ([`Settings::measure`]) |
//! | time of the check: at each arrival (Fig. 5) | at each sending opportunity, for all arrivals before it one by one; without such, every quarter of a delay ([`watch`](timeous_core::Adviser::watch)) |
//! | feedback above `Max_Th` | given, as §3.2 reads; by Fig. 5 (`else if`) a queue that jumps above it would never be reported |
//! | drops because of a deadline (the paper's packets have none) | reported to the source, too: [`Reason::Late`](timeous_core::Reason) |
//! | "only sends marked packets" (§3), "preferentially drop unmarked packets" (Fig. 5) | the former, or by [`DropRule::Excess`] the latter |
//! | queue left by a higher rate, above the new `Max_Th` | optionally judged by the old threshold for four delays ([`Settings::spare_what_remains`]) |
//! | marked packets | by priority, layer, or a predicate ([`Marking`]) |
//! | "tries its best to sustain that rate", "keeps its sending rate within a certain range" (§3.2) | the transport is asked for the stream's rate and a quarter more ([`Settings::ask_for_rate`]) |
//! | increase of the rate | requested by the paper's client; here the source is told of room, too, unless [`Settings::tell_of_room`] is off |
//!
//! Marked packets are never dropped here: if all are marked, only deadlines and the ring's size bound the queue. In a
//! [`Chain`] with other policies, [`Punctual`] comes first, so that expired packets do not count as queued, and
//! [`Dependencies`] last, to drop the packets that refer to one dropped here.

mod average;
mod carried;
mod delivery_rates;
mod marking;
mod others;

mod pace;
mod rates;
mod thresholds;
mod tuner;
mod used;

use std::collections::BTreeMap;

use timeous_core::{
    AduMeta, AduSeq, Advice, Adviser, BufferState, DropReason, Fate, FrameId, Instant, LateChoice, PathState, Queue,
    Rate, RateRange,
};

use crate::{Chain, Dependencies, Punctual};
pub use marking::Marking;
pub use thresholds::{Delay, Level};
pub use tuner::{DropRule, Settings, Tuner};

/// DBAT as a late-choice policy.
///
/// Between two calls the queue only grows, and packets carry their enqueue time: the average is therefore updated at
/// each arrival, as in the paper, although the policy runs only at sending opportunities. New packets are recognized by
/// enqueue time and sequence number, which must increase.
///
/// ```
/// use timeous_choice::dbat::{Dbat, Marking, Settings};
/// use timeous_choice::{Chain, Deadlines, Dependencies, LateChoice};
/// use timeous_core::Rate;
/// let dbat = Dbat::new(Settings::default(), Marking::default());
/// let mut choice = Chain::default().then(Deadlines).then(dbat).then(Dependencies::default());
///
/// // Whoever drives the queue passes on what source and choice tell each other:
/// let adviser = choice.adviser().unwrap();
/// adviser.set_rate(Rate::from_kbps(960));
/// while let Some(advice) = adviser.poll_advice() {
///     println!("{:?}: {} waits, better {}", advice.reason, advice.average, advice.rate);
/// }
/// ```
#[derive(Debug)]
pub struct Dbat {
    tuner: Tuner,
    marking: Marking,
    /// Newest packet counted as an arrival.
    newest: Option<Name>,
    /// Counted packets without a known fate, with their lengths.
    open: BTreeMap<Name, u64>,
}

/// Maximum number of tracked packets without a known fate. Chosen by us: a higher value takes more memory; a lower one
/// forgets the oldest packets of a large window.
const MAX_TRACKED: usize = 8_192;

/// Key of a packet: enqueue time and sequence number.
type Name = (Instant, AduSeq);

const fn name(meta: &AduMeta) -> Name {
    (meta.enqueued, meta.seq)
}

impl Dbat {
    /// Creates the policy for one stream.
    #[must_use]
    pub fn new(settings: Settings, marking: Marking) -> Self {
        Self { tuner: Tuner::new(settings), marking, newest: None, open: BTreeMap::new() }
    }

    /// Creates a chain for media by the default settings: frames of the highest priority are marked.
    #[must_use]
    pub fn for_media() -> Chain {
        Self::chain(Settings::default(), Marking::default())
    }

    /// Creates a chain with the policies for deadlines and references.
    #[must_use]
    pub fn chain(settings: Settings, marking: Marking) -> Chain {
        Chain::default().then(Punctual).then(Self::new(settings, marking)).then(Dependencies::default())
    }

    /// Counts new arrivals and judges the queue: returns its level and length in bytes. Expired packets do not count,
    /// whichever policy drops them.
    fn look(&mut self, now: Instant, path: &PathState, queue: &dyn Queue) -> (Level, u64) {
        let mut queued = 0;
        for index in 0..queue.len() {
            let Some((meta, len)) = queue.get(index).filter(|(meta, _)| !meta.is_expired(now)) else { continue };
            queued += len as u64;
            if self.is_new(meta) {
                self.open.insert(name(meta), len as u64);
                self.tuner.arrived(meta.enqueued.min(now), queued, len as u64);
            }
        }
        while self.open.len() > MAX_TRACKED {
            self.open.pop_first();
        }
        (self.tuner.judge(now, path, queued), queued)
    }

    /// Whether this packet is seen for the first time.
    fn is_new(&mut self, meta: &AduMeta) -> bool {
        let new = self.newest.is_none_or(|newest| name(meta) > newest);
        if new {
            self.newest = Some(name(meta));
        }
        new
    }

    /// Drops the packets before the first marked one.
    fn only_marked(&self, queue: &mut dyn Queue) {
        for index in 0..queue.len() {
            match queue.get(index) {
                Some((meta, _)) if self.marking.is_marked(meta) => return,
                Some(_) => queue.drop_at(index, DropReason::Policy),
                None => {}
            }
        }
    }

    /// Drops the oldest unmarked packets of `queued` bytes until at most `keep` bytes are left, and the rest of the
    /// last dropped frame.
    fn excess(&self, queue: &mut dyn Queue, mut queued: u64, keep: u64) {
        let mut begun = FrameId::NONE;
        for index in 0..queue.len() {
            let Some((meta, len)) = queue.get(index) else { continue };
            let belongs = begun != FrameId::NONE && meta.frame == begun;
            if self.marking.is_marked(meta) || (queued <= keep && !belongs) {
                continue;
            }
            begun = meta.frame;
            queue.drop_at(index, DropReason::Policy);
            queued = queued.saturating_sub(len as u64);
        }
    }
}

impl LateChoice for Dbat {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        let (level, queued) = self.look(now, path, queue);
        if level < Level::Overfull {
            return;
        }
        match self.tuner.settings().beyond {
            DropRule::OnlyMarked => self.only_marked(queue),
            DropRule::Excess => self.excess(queue, queued, self.tuner.most()),
        }
    }

    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        let len = self.open.remove(&name(meta));
        match fate {
            Fate::Acked => self.tuner.acked(len.unwrap_or(0)),
            Fate::Dropped(DropReason::TooLate | DropReason::Expired) => self.tuner.too_late(),
            Fate::Lost | Fate::Dropped(_) => {}
        }
        if fate != Fate::Acked {
            self.tuner.gone(len.unwrap_or(0));
        }
    }

    fn adviser(&mut self) -> Option<&mut dyn Adviser> {
        Some(self)
    }
}

impl Adviser for Dbat {
    fn set_rate(&mut self, rate: Rate) {
        self.tuner.set_rate(rate);
    }

    fn watch(&mut self, now: Instant, path: &PathState, queue: &dyn Queue) {
        self.look(now, path, queue);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.tuner.poll_timeout()
    }

    fn poll_advice(&mut self) -> Option<Advice> {
        self.tuner.poll_advice()
    }

    fn state(&self) -> BufferState {
        self.tuner.state()
    }

    fn rate_range(&self) -> Option<RateRange> {
        self.tuner.rate_range()
    }
}

#[cfg(test)]
mod tests;
