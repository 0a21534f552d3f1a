//! Clairvoyant upper bound: the most frames that any schedule with full knowledge of rates and losses could make
//! decodable in time.
//!
//! Frames are captured in the order of their deadlines, so any feasible set can be sent in that order, each frame as
//! early as possible. Only the set, closed under references, is left to choose. It is built frame by frame: of two sets
//! with the same frames among those that later ones refer to, the one of equal value that is sent earlier is as good in
//! every continuation. So dynamic programming finds the optimum.

mod rates;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use rates::Rates;

/// A frame to be sent. Times are in nanoseconds at the link's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Capture time.
    pub release: u64,
    /// Latest end of its transmission by the link.
    pub deadline: u64,
    /// Size on the link, in bytes.
    pub bytes: u64,
    /// Indices of the frames that it depends on, all before it.
    pub needs: Vec<usize>,
    /// Value of the frame.
    pub value: u64,
}

/// Result of the bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Bound {
    /// Value that no schedule exceeds.
    pub value: u64,
    /// Whether some schedule reaches it; otherwise it is only an upper bound.
    pub exact: bool,
}

/// Maximum number of candidate sets, by the frames in them that later ones depend on; further ones are merged into one
/// with all of these frames, which makes the result an upper bound.
const MOST_SETS: usize = 512;
/// Maximum number of frames that later ones depend on at a time; dependencies on further ones are assumed to be met.
const MOST_NEEDED: usize = 128;

/// Frames of a set that later ones depend on, as bits.
type ReferenceSet = u128;

/// Pareto front of the sets with the same `ReferenceSet`: value, and time at which the link is free; both rise.
type ParetoFront = Vec<(u64, u64)>;

/// Computes the bound for frames over a link.
pub fn bound(jobs: &[Job], rates: &Rates) -> Bound {
    let mut exact = true;
    let (releases, deadlines) = agreeable(jobs, &mut exact);
    let last_need = last_needs(jobs);
    // Indices of frames that later ones depend on, by bit.
    let mut needed: Vec<usize> = Vec::new();
    let mut sets: BTreeMap<ReferenceSet, ParetoFront> = BTreeMap::from([(0, vec![(0, 0)])]);
    for (place, job) in jobs.iter().enumerate() {
        let mask =
            job.needs.iter().fold(0, |mask: ReferenceSet, need| match needed.iter().position(|place| place == need) {
                Some(bit) => mask | 1 << bit,
                None => {
                    exact = false;
                    mask
                }
            });
        let keeps: Vec<usize> = needed.iter().copied().filter(|&held| last_need[held] > place).collect();
        let moves: Vec<usize> = keeps.iter().filter_map(|keep| needed.iter().position(|place| place == keep)).collect();
        let own = (last_need[place] > place && keeps.len() < MOST_NEEDED).then_some(keeps.len());
        let mut next: BTreeMap<ReferenceSet, ParetoFront> = BTreeMap::new();
        for (held, front) in &sets {
            let rest =
                moves.iter().enumerate().fold(0, |rest: ReferenceSet, (to, from)| rest | (held >> from & 1) << to);
            next.entry(rest).or_default().extend(front.iter().map(|&(value, free)| (value, free.max(releases[place]))));
            if held & mask == mask {
                let with = rest | own.map_or(0, |bit| 1 << bit);
                let sent = front.iter().filter_map(|&(value, free)| {
                    let sent = rates.finish(free.max(releases[place]), job.bytes)?;
                    (sent <= deadlines[place]).then_some((value + job.value, sent))
                });
                next.entry(with).or_default().extend(sent);
            }
        }
        if next.len() > MOST_SETS {
            exact = false;
            let all = next.keys().fold(0, |all, held| all | held);
            next = BTreeMap::from([(all, next.into_values().flatten().collect())]);
        }
        next.retain(|_, front| {
            prune(front);
            !front.is_empty()
        });
        needed = keeps;
        needed.extend(own.map(|_| place));
        sets = next;
    }
    let value = sets.values().flatten().map(|&(value, _)| value).max().unwrap_or(0);
    Bound { value, exact }
}

/// Makes captures and deadlines monotonic. Where they are not, frames get the earliest later capture and the latest
/// earlier deadline, and the result is an upper bound.
fn agreeable(jobs: &[Job], exact: &mut bool) -> (Vec<u64>, Vec<u64>) {
    let (mut earliest, mut latest) = (u64::MAX, 0);
    let mut releases: Vec<u64> = Vec::with_capacity(jobs.len());
    for job in jobs.iter().rev() {
        earliest = earliest.min(job.release);
        releases.push(earliest);
    }
    releases.reverse();
    let latest_of = |job: &Job| {
        latest = latest.max(job.deadline);
        latest
    };
    let deadlines: Vec<u64> = jobs.iter().map(latest_of).collect();
    let as_they_are = |(place, job): (usize, &Job)| (job.release, job.deadline) == (releases[place], deadlines[place]);
    *exact &= jobs.iter().enumerate().all(as_they_are);
    (releases, deadlines)
}

/// For each frame, the last one that depends on it; itself if none does.
fn last_needs(jobs: &[Job]) -> Vec<usize> {
    let mut last: Vec<usize> = (0..jobs.len()).collect();
    for (place, job) in jobs.iter().enumerate() {
        for &need in &job.needs {
            assert!(need < place, "a frame refers to frames before it");
            last[need] = place;
        }
    }
    last
}

/// Removes dominated entries: those with no more value than one that is sent no later.
fn prune(front: &mut ParetoFront) {
    front.sort_unstable_by_key(|&(value, free)| (free, std::cmp::Reverse(value)));
    let mut best = None;
    front.retain(|&(value, _)| {
        let better = best.is_none_or(|best| value > best);
        if better {
            best = Some(value);
        }
        better
    });
}
