//! The set of frames that is worth most of those that can be sent in time, in their order.
//!
//! Frame by frame, sets are kept that nothing exceeds: of two that hold the same of the frames which later ones refer to,
//! the one that is worth as much and lets the link go earlier is as good whatever follows. So the best set is found
//! as long as there are not too many to be kept, and else a good one.

use std::cmp::Reverse;

/// A frame that waits, or that is expected. Times are nanoseconds from now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Job {
    /// From when on it can be sent.
    pub(super) release: u64,
    /// When its last byte has to be out.
    pub(super) deadline: u64,
    pub(super) bytes: u64,
    /// The places of the jobs without which it is useless, all before its own: the first `needed` of them.
    pub(super) needs: [u8; 4],
    pub(super) needed: u8,
    pub(super) worth: u64,
}

impl Job {
    pub(super) fn needs(&self) -> impl Iterator<Item = usize> + '_ {
        self.needs[..usize::from(self.needed)].iter().map(|&need| usize::from(need))
    }

    /// `false` if there is no room for one more.
    #[must_use]
    pub(super) fn need(&mut self, job: usize) -> bool {
        let (at, job) = (usize::from(self.needed), u8::try_from(job).ok());
        let (Some(slot), Some(job)) = (self.needs.get_mut(at), job) else { return false };
        *slot = job;
        self.needed += 1;
        true
    }
}

/// More jobs are not looked at.
pub(super) const MOST_JOBS: usize = 128;
/// So many sets are told apart by what they hold, and so many are kept of each kind: they bound what a plan costs.
const MOST_KINDS: usize = 16;
const MOST_OF_A_KIND: usize = 32;

/// A set of jobs: a bit for each place.
pub(super) type Taken = u128;

/// A set, and what it comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Set {
    /// Those of its jobs that later ones need.
    held: Taken,
    /// When the link is free.
    free: u64,
    worth: u64,
    taken: Taken,
}

/// Finds sets. It keeps its memory from one time to the next.
#[derive(Clone, Debug, Default)]
pub(super) struct Scheduler {
    sets: Vec<Set>,
    next: Vec<Set>,
    last_need: Vec<usize>,
}

impl Scheduler {
    /// The best set of `jobs`, where a byte takes `picos` picoseconds.
    pub(super) fn best(&mut self, jobs: &[Job], picos: u64) -> Taken {
        let jobs = &jobs[..jobs.len().min(MOST_JOBS)];
        self.find_last_needs(jobs);
        self.sets.clear();
        self.sets.push(Set { held: 0, free: 0, worth: 0, taken: 0 });
        // Of the jobs so far, those that later ones need.
        let mut open: Taken = 0;
        for (place, job) in jobs.iter().enumerate() {
            let needs = job.needs().fold(0, |needs: Taken, need| needs | 1 << need);
            let last_need = &self.last_need;
            open = bits(open).filter(|&held| last_need[held] > place).fold(0, |open, held| open | 1 << held);
            let bit = if last_need[place] > place { 1 << place } else { 0 };
            let time = job.bytes.saturating_mul(picos) / 1_000;
            self.next.clear();
            for set in &self.sets {
                self.next.push(Set { held: set.held & open, ..*set });
                let free = set.free.max(job.release).saturating_add(time);
                if set.held & needs == needs && free <= job.deadline {
                    let (held, taken) = (set.held & open | bit, set.taken | 1 << place);
                    self.next.push(Set { held, free, worth: set.worth + job.worth, taken });
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

/// Leaves the sets that nothing exceeds. `release` is a time before which no link has to be free: what comes waits for it.
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

/// Leaves so many sets as a plan may cost: of each kind the one that is free first, the one that is worth most, and some
/// between.
fn bound(sets: &mut Vec<Set>) {
    if sets.len() <= MOST_OF_A_KIND {
        return;
    }
    let mut kept = Vec::with_capacity(sets.len());
    let mut kinds: Vec<&[Set]> = sets.chunk_by(|a, b| a.held == b.held).collect();
    if kinds.len() > MOST_KINDS {
        kinds.sort_by_key(|kind| Reverse(kind.last().map(|set| set.worth)));
        kinds.truncate(MOST_KINDS);
    }
    for kind in kinds {
        let last = kind.len() - 1;
        let most = MOST_OF_A_KIND.min(kind.len());
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
        bits(Scheduler::default().best(jobs, 1_000)).collect()
    }

    /// What a set is worth, if it can be sent in time and lacks nothing that it needs.
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

    #[test]
    fn what_nothing_can_save_does_not_begin() {
        assert!(best(&jobs(&[(0, 9, 10, &[], 1), (0, 50, 10, &[0], 1)])).is_empty());
        assert!(best(&[]).is_empty());
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
            let found = Scheduler::default().best(&jobs, 1_000);
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
                prop_assert!(back == 0 || place < back || place >= MOST_JOBS || job.need(place - back));
                jobs.push(job);
            }
            let found = Scheduler::default().best(&jobs, 1_000);
            prop_assert!(worth(&jobs, found).is_some());
        }
    }
}
