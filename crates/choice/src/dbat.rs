//! By the queue's average length, with early feedback to the source: Dynamic Buffer Active Tuning (Hasan et al. §3).
//!
//! What a stream's rate yields within the path's delay is `Min_Th`, twice of it `Max_Th`. At each packet's arrival the
//! weighted average of what is queued is taken. Beyond the middle of both thresholds the source is told, at most once a
//! round trip; beyond `Max_Th` only marked packets go.
//!
//! What the paper says, and what it leaves open:
//!
//! | Paper | Here |
//! |---|---|
//! | "delay" (§3.2, Fig. 5) | a choice: the path's least round trip ([`Delay`]), and not less than 100 ms ([`Settings::least_delay`]) |
//! | the unit of thresholds and queue | bytes of payload; `Min_Th` is at least two of the stream's largest packets, for at 80 kbit/s and 20 ms it would be a fifth of one |
//! | the weight of the average | a choice: an eighth, taken at each arrival ([`Settings::parts`]) |
//! | the average over empty times | RED's rule (Floyd & Jacobson 1993 §4) |
//! | what feedback says | the queue, its average, the thresholds, the reason, and a rate ([`Advice`]) |
//! | the stream's rate ("specified at connection", §3.2) | said by [`set_rate`](timeous_core::Adviser::set_rate); else what was handed over in the last second ([`Settings::measure`]) |
//! | when the queue is looked at: at each arrival (Fig. 5) | at each packet that may leave, which counts all arrivals before it one by one; where nothing may leave, every quarter of a delay ([`watch`](timeous_core::Adviser::watch)) |
//! | feedback beyond `Max_Th` | given, as §3.2 reads; by Fig. 5 (`else if`) a queue that leaps beyond it would never be told of |
//! | what is given up for its deadline (the paper's packets have none) | a reason to tell the source, too: [`Reason::Late`](timeous_core::Reason) |
//! | "only sends marked packets" (§3), "preferentially drop unmarked packets" (Fig. 5) | the first, or by [`Beyond::Excess`] the second |
//! | what a switch to a lower rate leaves in the queue, more than the new `Max_Th` | by [`Settings::spare_what_remains`] judged by the old one for four delays |
//! | what is marked | priority, layer, or a predicate ([`Marking`]) |
//! | how a stream gets faster again | the paper's client asks; here the source is told of room, too, unless [`Settings::tell_of_room`] is off |
//!
//! A marked packet is never given up here: what bounds a queue in which all are marked is their deadlines and the ring's
//! size. Policies that come along in a [`Chain`]: [`Punctual`] before, so that what is
//! expired does not count as queued, and [`Dependencies`] after, so that what refers to a packet
//! given up here goes, too.

mod average;
mod carried;
mod lately;
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
    Rate,
};

use crate::{Chain, Dependencies, Punctual};
pub use marking::Marking;
pub use thresholds::{Delay, Level};
pub use tuner::{Beyond, Settings, Tuner};

/// DBAT as a choice at the instant of sending.
///
/// Between two looks a queue only grows, and every packet says when it was handed over: so the average is taken at each
/// arrival as the paper has it, though the choice looks only when something may leave. New packets are told by the time
/// and the number of their hand-over, which have to go up.
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
    /// The newest packet that has counted.
    newest: Option<Name>,
    /// What has counted and has no fate yet, with its length.
    open: BTreeMap<Name, u64>,
}

/// So many packets may be without a fate; of older ones it counts no more.
const MOST_OPEN: usize = 8_192;

/// A packet's: the time and the number of its hand-over.
type Name = (Instant, AduSeq);

const fn name(meta: &AduMeta) -> Name {
    (meta.enqueued, meta.seq)
}

impl Dbat {
    /// For one stream.
    #[must_use]
    pub fn new(settings: Settings, marking: Marking) -> Self {
        Self { tuner: Tuner::new(settings), marking, newest: None, open: BTreeMap::new() }
    }

    /// With what goes along where ADUs have deadlines and refer to each other: the paper's policy for media, in which
    /// frames of the highest priority are marked.
    #[must_use]
    pub fn for_media() -> Chain {
        let dbat = Self::new(Settings::default(), Marking::default());
        Chain::default().then(Punctual).then(dbat).then(Dependencies::default())
    }

    /// Counts what has arrived, and judges what waits: the level, and how much that is. What has expired is gone,
    /// whoever takes it away.
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
        while self.open.len() > MOST_OPEN {
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

    /// Gives up what comes before the first marked packet.
    fn only_marked(&self, queue: &mut dyn Queue) {
        for index in 0..queue.len() {
            match queue.get(index) {
                Some((meta, _)) if self.marking.is_marked(meta) => return,
                Some(_) => queue.drop_at(index, DropReason::Policy),
                None => {}
            }
        }
    }

    /// Gives up the oldest unmarked packets of `queued` bytes until at most `keep` are left, and the rest of the last
    /// one's frame.
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
            Beyond::OnlyMarked => self.only_marked(queue),
            Beyond::Excess => self.excess(queue, queued, self.tuner.most()),
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
}

#[cfg(test)]
mod tests;
