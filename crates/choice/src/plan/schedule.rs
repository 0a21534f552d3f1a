//! Scheduler: finds the most valuable set of frames that can be sent in time, in their order.
//!
//! Dynamic programming, frame by frame, over non-dominated sets: of two sets with the same frames that later ones refer
//! to, one of at least the same value that frees the link earlier dominates. The result is optimal unless the number of
//! sets exceeds a bound, and good otherwise.

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
        self.sets.clear();
        self.sets.push(Set { free: busy, ..Set::EMPTY });
        // Earlier jobs that later ones depend on.
        let mut open: Taken = 0;
        for (place, job) in jobs.iter().enumerate() {
            let needs = job.needs().fold(0, |needs: Taken, need| needs | 1 << need);
            let last_need = &self.last_need;
            open = bits(open).filter(|&held| last_need[held] > place).fold(0, |open, held| open | 1 << held);
            let bit = if last_need[place] > place { 1 << place } else { 0 };
            let time = job.bytes.saturating_mul(picos) / 1_000;
            self.next.clear();
            for set in &self.sets {
                let begin = set.free.max(job.release);
                let free = begin.saturating_add(time);
                let is_possible = set.held & needs == needs && free <= job.deadline;
                if !is_possible || !job.is_required {
                    self.next.push(Set { held: set.held & open, ..*set });
                }
                if is_possible {
                    let (held, taken) = (set.held & open | bit, set.taken | 1 << place);
                    let mut next = Set { held, free, worth: set.worth + job.worth, taken, ..*set };
                    if !chances.is_certain() {
                        let needed = job
                            .needs()
                            .map(|need| set.there(need))
                            .fold(ArrivalProbability::SURELY, ArrivalProbability::least);
                        let own = chances.of(job, begin, free);
                        let there = ArrivalProbability {
                            whole: needed.whole * own.whole,
                            in_time: needed.in_time.min(own.in_time),
                        };
                        next.worth = set.worth + (job.worth as f64 * f64::from(there.likely())) as u64;
                        next.note(place, there);
                    }
                    self.next.push(next);
                }
            }
            open |= bit;
            let release = job.release;
            prune(&mut self.next, release);
            std::mem::swap(&mut self.sets, &mut self.next);
        }
        let best = self.sets.iter().max_by_key(|set| (set.worth, Reverse(set.free), set.taken));
        best.map_or(0, |set| set.taken)
    }

    fn find_last_needs(&mut self, jobs: &[Job]) {
        self.last_need.clear();
        self.last_need.extend(0..jobs.len());
        for (place, job) in jobs.iter().enumerate() {
            job.needs().for_each(|need| self.last_need[need] = place);
        }
    }
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn jobs(of: &[(u64, u64, u64, &[usize], u64)]) -> Vec<Job> {
        let of = of.iter();
        of.map(|&(release, deadline, bytes, needs, worth)| {
            let mut job = Job { release, deadline, bytes, worth, ..Job::default() };
            assert!(needs.iter().all(|&need| job.need(need)));
            job
        })
        .collect()
    }

    fn best(jobs: &[Job]) -> Vec<usize> {
        bits(Scheduler::default().best(jobs, Timing { picos: 1_000, ..Timing::default() })).collect()
    }

    /// Value of a set, if it can be sent in time and contains all dependencies.
    fn worth(jobs: &[Job], set: Taken) -> Option<u64> {
        let (mut free, mut worth) = (0_u64, 0);
        for place in bits(set) {
            let job = jobs[place];
            free = free.max(job.release) + job.bytes;
            worth += job.worth;
            if free > job.deadline || !job.needs().all(|need| set >> need & 1 == 1) {
                return None;
            }
        }
        Some(worth)
    }

    #[test]
    fn the_tail_of_a_group_goes_before_its_head() {
        let chain = jobs(&[(0, 30, 10, &[], 1), (0, 30, 10, &[0], 1), (0, 30, 10, &[1], 1), (0, 30, 10, &[2], 1)]);
        assert_eq!(best(&chain), [0, 1, 2]);
    }

    #[test]
    fn many_small_frames_go_before_a_large_one_unless_that_is_worth_more() {
        let small = |worth| jobs(&[(0, 30, 30, &[], worth), (0, 30, 15, &[], 1), (0, 30, 15, &[], 1)]);
        assert_eq!(best(&small(1)), [1, 2]);
        assert_eq!(best(&small(3)), [0]);
    }

    #[test]
    fn room_is_left_for_what_will_come_and_is_worth_more() {
        let tail = (0, 40, 20, [].as_slice(), 1);
        let group = [(15, 30, 12, [].as_slice(), 1), (16, 40, 5, &[1], 1), (17, 40, 5, &[2], 1)];
        assert_eq!(best(&jobs(&[tail, group[0], group[1], group[2]])), [1, 2, 3]);
        assert_eq!(best(&jobs(&[tail])), [0], "where nothing comes");
    }

    /// Found with five programs over half of their rate: tables were given up for the keyframes behind them.
    #[test]
    fn what_is_required_is_in_each_set_in_which_it_is_in_time() {
        let best_of = |table: (u64, u64)| {
            let mut jobs = jobs(&[(0, 30, 20, &[], 5), (0, table.0, table.1, &[], 1), (0, 30, 10, &[], 9)]);
            jobs[1].is_required = true;
            best(&jobs)
        };
        assert_eq!(best_of((30, 2)), [1, 2]);
        assert_eq!(best_of((20, 2)), [0, 2], "late behind the first");
        assert_eq!(best_of((1, 2)), [0, 2], "never in time");
    }

    #[test]
    fn what_nothing_can_save_does_not_begin() {
        assert!(best(&jobs(&[(0, 9, 10, &[], 1), (0, 50, 10, &[0], 1)])).is_empty());
        assert!(best(&[]).is_empty());
    }

    /// Found by `timeous-lab bloat`: a stream of short groups sent all frames at the last moment, without time for
    /// retransmissions, and at an RTT of a tenth of the deadline half of the groups broke.
    #[test]
    fn where_packets_get_lost_time_is_left_for_what_leaves_again() {
        // Groups of four frames of duration 10, one per 30; a frame sent within 50 of its deadline cannot be retransmitted.
        let group = |n: u64| {
            let at = n as usize * 4;
            let frame = move |k: usize| {
                let release = 30 * n;
                let mut job = Job {
                    release,
                    deadline: release + 80,
                    due: release + 80,
                    bytes: 10,
                    worth: 1_000,
                    packets: 40.0,
                    ..Job::default()
                };
                assert!(k == 0 || job.need(at + k - 1));
                job
            };
            (0..4).map(frame)
        };
        let jobs: Vec<Job> = (0..8).flat_map(group).collect();
        let taken = |loss, again| {
            let taken = Scheduler::default()
                .best(&jobs, Timing { picos: 1_000, busy: 0, chances: Chances { loss, again, spread: 0 } });
            bits(taken).filter(|place| place / 4 == 0).count()
        };
        assert_eq!(
            [taken(0.0, 50), taken(0.05, 50)],
            [4, 3],
            "the others are later by a frame, and have three each in any case"
        );
        assert_eq!(taken(0.05, 60), 4, "hardly any could leave again");
    }

    #[test]
    fn the_later_a_job_leaves_the_less_likely_it_is_there() {
        let chances = Chances { loss: 0.1, again: 100, spread: 0 };
        let job = Job { due: 350, packets: 2.0, ..Job::default() };
        let of = |begin, end| (chances.whole(&job, begin, end) * 1e4).round();
        assert_eq!([of(0, 40), of(150, 200), of(250, 260), of(300, 350)], [10_000.0, 9_802.0, 9_608.0, 9_608.0]);
        assert!((200..300).all(|end| of(end - 150, end) >= of(end - 149, end + 1)));
        assert_eq!(of(400, 500), of(350, 350), "it has begun, and ends later than it should");
    }

    /// Found by `timeous-lab bloat`: everything was staked on a frame that would arrive in the last millisecond, and
    /// one estimated to be late by a millisecond was dropped though nothing else was queued.
    #[test]
    fn what_is_at_the_last_instant_is_not_certain() {
        let chances = Chances { spread: 10, ..Chances::default() };
        let job = |due, bytes, worth| Job { due, deadline: due + 20, bytes, worth, ..Job::default() };
        let likely = |end| (chances.of(&job(100, 1, 1), 0, end).likely() * 100.0).round();
        assert_eq!([60, 90, 99, 100, 101, 120].map(likely), [96.0, 80.0, 55.0, 50.0, 1.0, 0.0]);
        let best = |jobs: &[Job]| {
            bits(Scheduler::default().best(jobs, Timing { picos: 1_000, busy: 0, chances })).collect::<Vec<_>>()
        };
        assert_eq!(best(&[job(50, 51, 1_000)]), [0]);
        assert!(best(&[job(50, 71, 1_000)]).is_empty());
        assert_eq!(best(&[job(50, 49, 1_000), job(60, 35, 900)]), [1], "in half of the cases, and in nine of ten");
        assert_eq!(
            best(&[job(50, 40, 1_000), job(50, 15, 1_000), job(50, 11, 600)]),
            [1, 2],
            "not for what would be late"
        );
        assert_eq!(best(&[job(50, 40, 10_000), job(50, 15, 1_000)]), [0, 1], "it takes nobody's place");
    }

    #[test]
    fn what_needs_what_is_late_is_late_itself_and_no_more() {
        let chances = Chances { spread: 10, ..Chances::default() };
        let mut tail = Job { due: 500, deadline: 500, bytes: 1, worth: 900, ..Job::default() };
        let head = Job { due: 100, deadline: 100, bytes: 100, worth: 1, ..Job::default() };
        assert!(tail.need(0));
        // The head ends exactly when due and the tail earlier: half of their value. The other job is nearly certain.
        let other = |worth| Job { due: 100, deadline: 100, bytes: 50, worth, ..Job::default() };
        let best = |jobs: &[Job]| {
            bits(Scheduler::default().best(jobs, Timing { picos: 1_000, busy: 0, chances })).collect::<Vec<_>>()
        };
        assert_eq!([best(&[head, tail, other(440)]), best(&[head, tail, other(470)])], [vec![0, 1], vec![2]]);
    }

    proptest! {
        #[test]
        fn it_is_the_best_of_all_sets_of_a_small_queue(
            of in prop::collection::vec((0_u64..40, 1_u64..60, 1_u64..25, prop::collection::vec(any::<prop::sample::Index>(), 0..3), 1_u64..5), 0..11)
        ) {
            let mut jobs: Vec<Job> = Vec::new();
            for (place, (gap, time, bytes, needs, worth)) in of.into_iter().enumerate() {
                let release = jobs.last().map_or(0, |job| job.release) + gap / 4;
                let mut job = Job { release, deadline: release + time, bytes, worth, ..Job::default() };
                for need in needs.iter().filter(|_| place > 0) {
                    prop_assert!(job.need(need.index(place)));
                }
                jobs.push(job);
            }
            let found = Scheduler::default().best(&jobs, Timing { picos: 1_000, ..Timing::default() });
            let most = (0..1_u128 << jobs.len()).filter_map(|set| worth(&jobs, set)).max();
            prop_assert_eq!(worth(&jobs, found), most);
        }

        #[test]
        fn of_a_long_queue_it_is_a_set_that_can_be_sent(
            of in prop::collection::vec((0_u64..9, 1_u64..200, 1_u64..9, 0_usize..6, 1_u64..5), 0..150)
        ) {
            let mut jobs: Vec<Job> = Vec::new();
            for (place, (gap, time, bytes, back, worth)) in of.into_iter().enumerate() {
                let release = jobs.last().map_or(0, |job| job.release) + gap / 4;
                let mut job = Job { release, deadline: release + time, bytes, worth, ..Job::default() };
                prop_assert!(back == 0 || place < back || place >= MAX_JOBS || job.need(place - back));
                jobs.push(job);
            }
            let found = Scheduler::default().best(&jobs, Timing { picos: 1_000, ..Timing::default() });
            prop_assert!(worth(&jobs, found).is_some());
        }
    }
}
