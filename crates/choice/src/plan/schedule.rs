//! Scheduler: finds the most valuable set of frames that can be sent in time, in their order.
//!
//! Dynamic programming, frame by frame, over non-dominated sets: of two sets with the same frames that later ones refer
//! to, one of at least the same value that frees the link earlier dominates. The result is optimal unless the number of
//! sets exceeds a bound, and good otherwise.

#[cfg(test)]
mod tests;

use std::cmp::Reverse;

/// Queued or expected frame. Times are in nanoseconds from now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Job {
    /// Earliest start of sending.
    pub(super) release: u64,
    /// Latest end of sending.
    pub(super) deadline: u64,
    /// Intended end of sending by the estimates, which may err; frames partly sent may end later.
    pub(super) due: u64,
    pub(super) bytes: u64,
    /// Indices of the jobs that it depends on, all before its own: the first `needed` entries.
    pub(super) needs: [u8; 4],
    pub(super) needed: u8,
    pub(super) worth: u64,
    /// Whether each set contains it in which it is in time.
    pub(super) is_required: bool,
    /// Number of packets.
    pub(super) packets: f32,
}

impl Job {
    pub(super) fn needs(&self) -> impl Iterator<Item = usize> + '_ {
        self.needs[..usize::from(self.needed)].iter().map(|&need| usize::from(need))
    }

    /// Adds a dependency; `false` if there is no room for it.
    #[must_use]
    pub(super) fn need(&mut self, job: usize) -> bool {
        let (at, job) = (usize::from(self.needed), u8::try_from(job).ok());
        let (Some(slot), Some(job)) = (self.needs.get_mut(at), job) else { return false };
        *slot = job;
        self.needed += 1;
        true
    }
}

/// Model of packet loss and timing: lost packets are retransmitted while there is time, and estimated times may err.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Chances {
    /// Packet loss probability.
    pub(super) loss: f32,
    /// Nanoseconds between a packet and its retransmission.
    pub(super) again: u64,
    /// Mean error of estimated times in nanoseconds; zero for exact times.
    pub(super) spread: u64,
}

/// Timing of the link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Timing {
    /// Picoseconds per byte.
    pub(super) picos: u64,
    /// Time until the link is free, in nanoseconds.
    pub(super) busy: u64,
    pub(super) chances: Chances,
}

/// Probabilities of a job to arrive completely, and in time. Delays affect all later jobs as well.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ArrivalProbability {
    whole: f32,
    in_time: f32,
}

impl ArrivalProbability {
    const SURELY: Self = Self { whole: 1.0, in_time: 1.0 };

    fn least(self, other: Self) -> Self {
        Self { whole: self.whole.min(other.whole), in_time: self.in_time.min(other.in_time) }
    }

    fn likely(self) -> f32 {
        self.whole * self.in_time
    }
}

/// Share of unrepaired losses that parity does not recover. Chosen by us: a higher value lowers the value of frames
/// that leave too late for a retransmission (docs/decisions/plan-likely-frames.md).
const NOT_REBUILT: f32 = 0.2;
/// Maximum number of retransmissions of a packet that the model distinguishes. Chosen by us: a higher value costs time
/// for unlikely cases.
const MAX_RETRANSMISSIONS: usize = 3;
/// Weight of the arrival probability of a frame that is estimated to be late but may be sent. Chosen by us: low, so
/// that it outweighs no priority, but positive, so that it is sent where it delays nothing.
const LATE_WEIGHT: f32 = 1.0 / 32.0;

impl Chances {
    /// Returns the model without losses if the jobs have hardly time for a retransmission: sending early then gains nothing.
    fn among(self, jobs: &[Job]) -> Self {
        let longest = jobs.iter().map(|job| job.due.saturating_sub(job.release)).max().unwrap_or(0);
        let counts = self.again > 0 && longest >= self.again / 2 * 3;
        Self { loss: if counts { self.loss } else { 0.0 }, ..self }
    }

    fn is_certain(&self) -> bool {
        self.loss <= 0.0 && self.spread == 0
    }

    /// Probabilities of a job that is sent from `begin` to `end`, if its dependencies arrive.
    fn of(&self, job: &Job, begin: u64, end: u64) -> ArrivalProbability {
        ArrivalProbability { whole: self.whole(job, begin, end), in_time: self.in_time(job, end) }
    }

    /// Probability of arriving in time: one half for a job that ends exactly when it is due.
    fn in_time(&self, job: &Job, end: u64) -> f32 {
        if self.spread == 0 {
            return 1.0;
        }
        let off = end.abs_diff(job.due) as f32 / self.spread as f32;
        // Approximates the exponential function.
        let other = 0.5 / (1.0 + off + off * off / 2.0);
        if end <= job.due { 1.0 - other } else { LATE_WEIGHT * other }
    }

    /// Probability of arriving completely: the later packets are sent, the fewer retransmissions are possible.
    fn whole(&self, job: &Job, begin: u64, end: u64) -> f32 {
        if self.loss <= 0.0 {
            return 1.0;
        }
        let time = (end - begin).max(1) as f32;
        let (mut until, mut latest) = (end.max(begin + 1), job.due);
        let (mut lost, mut chance) = (0.0, self.loss * NOT_REBUILT);
        for again in 0..MAX_RETRANSMISSIONS {
            let earliest = latest.saturating_sub(self.again);
            let from = earliest.clamp(begin, until);
            lost += (until - from) as f32 / time * chance;
            if from <= begin {
                break;
            }
            (until, latest) = (from, earliest);
            chance = self.loss.powi(again as i32 + 2);
        }
        // Approximates exp(-lost), with equal results on all machines.
        let lost = lost * job.packets;
        1.0 / (1.0 + lost + lost * lost / 2.0)
    }
}

/// Maximum number of jobs considered: a set of them is one 128-bit word. A higher value would make plans slower.
pub(super) const MAX_JOBS: usize = 128;
/// Maximum number of distinguished combinations of held jobs. Chosen by us: it bounds the cost of a plan; a higher
/// value is slower and closer to the best plan.
const MAX_KINDS: usize = 16;
/// Maximum number of sets for each combination of held jobs. Chosen by us: it bounds the cost of a plan; a higher value
/// is slower and closer to the best plan.
const MAX_SETS_OF_A_KIND: usize = 32;

/// Set of jobs as a bit mask of their indices.
pub(super) type Taken = u128;

/// Candidate set and its results.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Set {
    /// Jobs in the set that later ones depend on.
    held: Taken,
    /// Time when the link becomes free.
    free: u64,
    /// Expected value of the set.
    worth: u64,
    taken: Taken,
    /// Probabilities of the newest jobs that later ones depend on, by index.
    there: [(u8, ArrivalProbability); TRACKED_JOBS],
}

/// Number of jobs per set with a tracked arrival probability; others count as certain. Chosen by us: a higher value
/// makes plans slower and more exact.
const TRACKED_JOBS: usize = 4;

impl Set {
    const EMPTY: Self =
        Self { held: 0, free: 0, worth: 0, taken: 0, there: [(u8::MAX, ArrivalProbability::SURELY); TRACKED_JOBS] };

    fn there(&self, place: usize) -> ArrivalProbability {
        self.there.iter().find(|of| usize::from(of.0) == place).map_or(ArrivalProbability::SURELY, |of| of.1)
    }

    /// Stores the probability of a job that later ones depend on, in place of one that none depends on, or of the oldest.
    fn note(&mut self, place: usize, there: ArrivalProbability) {
        let held = self.held;
        if held >> place & 1 == 1 {
            let is_held = |place: u8| held.checked_shr(place.into()).is_some_and(|held| held & 1 == 1);
            let oldest = self.there.iter_mut().min_by_key(|of| (is_held(of.0), of.0));
            oldest.into_iter().for_each(|of| *of = (place as u8, there));
        }
    }
}

/// One job among all, and the earlier ones that it and later ones depend on.
#[derive(Clone, Copy, Debug)]
struct Step<'a> {
    place: usize,
    job: &'a Job,
    needs: Taken,
    /// Earlier jobs that later ones than this depend on.
    open: Taken,
    /// The job itself if later ones depend on it.
    bit: Taken,
    /// Time that it takes, in nanoseconds.
    time: u64,
}

impl Step<'_> {
    /// Adds the job to a set; `None` if it is late or lacks a dependency there.
    fn add_to(&self, set: &Set, chances: &Chances) -> Option<Set> {
        let &Self { place, job, needs, open, bit, time } = self;
        let begin = set.free.max(job.release);
        let free = begin.saturating_add(time);
        if set.held & needs != needs || free > job.deadline {
            return None;
        }
        let (held, taken) = (set.held & open | bit, set.taken | 1 << place);
        let mut next = Set { held, free, worth: set.worth + job.worth, taken, ..*set };
        if !chances.is_certain() {
            let needed =
                job.needs().map(|need| set.there(need)).fold(ArrivalProbability::SURELY, ArrivalProbability::least);
            let own = chances.of(job, begin, free);
            let there =
                ArrivalProbability { whole: needed.whole * own.whole, in_time: needed.in_time.min(own.in_time) };
            next.worth = set.worth + (job.worth as f64 * f64::from(there.likely())) as u64;
            next.note(place, there);
        }
        Some(next)
    }
}

/// Scheduler; keeps its memory between calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Scheduler {
    sets: Vec<Set>,
    next: Vec<Set>,
    last_need: Vec<usize>,
}

impl Scheduler {
    /// Returns the best set of `jobs` by expected value.
    pub(super) fn best(&mut self, jobs: &[Job], Timing { picos, busy, chances }: Timing) -> Taken {
        let jobs = &jobs[..jobs.len().min(MAX_JOBS)];
        self.find_last_needs(jobs);
        let chances = chances.among(jobs);
        let first = Set { free: busy, ..Set::EMPTY };
        self.best_is_all(jobs, picos, &chances, first).unwrap_or_else(|| self.search(jobs, picos, &chances, first))
    }

    fn search(&mut self, jobs: &[Job], picos: u64, chances: &Chances, first: Set) -> Taken {
        self.sets.clear();
        self.sets.push(first);
        for step in steps(jobs, &self.last_need, picos) {
            self.next.clear();
            for set in &self.sets {
                let added = step.add_to(set, chances);
                if added.is_none() || !step.job.is_required {
                    self.next.push(Set { held: set.held & step.open, ..*set });
                }
                self.next.extend(added);
            }
            prune(&mut self.next, step.job.release);
            std::mem::swap(&mut self.sets, &mut self.next);
        }
        let best = self.sets.iter().max_by_key(|set| (set.worth, Reverse(set.free), set.taken));
        best.map_or(0, |set| set.taken)
    }

    /// Returns the set of all jobs if it is the best: what it is worth less than were all certain is less than each job's value, and any
    /// other set lacks one. A long queue without deadlines, or with time to spare, needs no search.
    fn best_is_all(&self, jobs: &[Job], picos: u64, chances: &Chances, first: Set) -> Option<Taken> {
        let all = steps(jobs, &self.last_need, picos).try_fold(first, |set, step| step.add_to(&set, chances))?;
        let certain: u64 = jobs.iter().map(|job| job.worth).sum();
        let least = jobs.iter().map(|job| job.worth).min()?;
        (certain - all.worth < least).then_some(all.taken)
    }

    fn find_last_needs(&mut self, jobs: &[Job]) {
        self.last_need.clear();
        self.last_need.extend(0..jobs.len());
        for (place, job) in jobs.iter().enumerate() {
            job.needs().for_each(|need| self.last_need[need] = place);
        }
    }
}

/// The jobs in order; `last_need`: for each of them the last one that depends on it, or itself.
fn steps<'a>(jobs: &'a [Job], last_need: &'a [usize], picos: u64) -> impl Iterator<Item = Step<'a>> {
    let mut open: Taken = 0;
    jobs.iter().enumerate().map(move |(place, job)| {
        let needs = job.needs().fold(0, |needs: Taken, need| needs | 1 << need);
        let before = bits(open).filter(|&held| last_need[held] > place).fold(0, |open, held| open | 1 << held);
        let bit = if last_need[place] > place { 1 << place } else { 0 };
        open = before | bit;
        Step { place, job, needs, open: before, bit, time: job.bytes.saturating_mul(picos) / 1_000 }
    })
}

fn bits(mut set: Taken) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(bit)
    })
}

/// Removes dominated sets. `release`: time before which a free link makes no difference.
fn prune(sets: &mut Vec<Set>, release: u64) {
    sets.iter_mut().for_each(|set| set.free = set.free.max(release));
    sets.sort_unstable_by_key(|set| (set.held, set.free, Reverse(set.worth), set.taken));
    let mut best: Option<(Taken, u64)> = None;
    sets.retain(|set| {
        let better = best.is_none_or(|(held, worth)| held != set.held || set.worth > worth);
        if better {
            best = Some((set.held, set.worth));
        }
        better
    });
    bound(sets);
}

/// Limits the number of sets: keeps for each combination of held jobs the earliest, the most valuable, and some
/// between.
fn bound(sets: &mut Vec<Set>) {
    if sets.len() <= MAX_SETS_OF_A_KIND {
        return;
    }
    let mut kept = Vec::with_capacity(sets.len());
    let mut kinds: Vec<&[Set]> = sets.chunk_by(|a, b| a.held == b.held).collect();
    if kinds.len() > MAX_KINDS {
        kinds.sort_by_key(|kind| Reverse(kind.last().map(|set| set.worth)));
        kinds.truncate(MAX_KINDS);
    }
    for kind in kinds {
        let last = kind.len() - 1;
        let most = MAX_SETS_OF_A_KIND.min(kind.len());
        kept.extend((0..most).map(|n| kind[n * last / (most - 1).max(1)]));
    }
    kept.sort_unstable_by_key(|set| (set.held, set.free));
    *sets = kept;
}
