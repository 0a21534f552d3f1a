//! The clairvoyant bound: the most frames that any schedule, knowing every rate and loss in advance, could have made
//! decodable in time.
//!
//! Frames are captured in the order of their deadlines, so that a set of frames that can be sent in time at all can be sent
//! in that order, each as soon as the link and the frame are there. What is left to choose is the set, closed under
//! references. It is built frame by frame: of two sets that hold the same frames among those that later ones refer to,
//! the one with as much value that leaves the link earlier is as good in every continuation. So the best is found exactly.

mod rates;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub(crate) use rates::Rates;

/// A frame as the bound sees it. Times are nanoseconds at the entry of the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// When it is captured.
    pub(crate) release: u64,
    /// When its last byte has to have left the link's transmitter.
    pub(crate) deadline: u64,
    /// On the link, headers included.
    pub(crate) bytes: u64,
    /// The places of the frames without which it is useless, all before it.
    pub(crate) needs: Vec<usize>,
    /// What it counts.
    pub(crate) value: u64,
}

/// The bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Bound {
    /// The value that no schedule exceeds.
    pub(crate) value: u64,
    /// Whether a schedule reaches it. If not, it is an upper bound only.
    pub(crate) exact: bool,
}

/// So many sets are told apart by which of their frames others still need; beyond, they are thought of as one that has
/// all of these frames, which makes the bound an upper one.
const MOST_SETS: usize = 512;
/// So many frames at once may be needed by later ones; what a further one needs is thought to be there.
const MOST_NEEDED: usize = 128;

/// Which of the frames that are still needed a set holds: a bit for each place among them.
type Held = u128;

/// What a set is worth, and when the link has sent it: each worth more than the one before it, and free later.
type Front = Vec<(u64, u64)>;

/// The bound for frames over a link.
pub(crate) fn bound(jobs: &[Job], rates: &Rates) -> Bound {
    let mut exact = true;
    let (releases, deadlines) = agreeable(jobs, &mut exact);
    let last_need = last_needs(jobs);
    // Places of frames that later ones refer to, by bit.
    let mut needed: Vec<usize> = Vec::new();
    let mut sets: BTreeMap<Held, Front> = BTreeMap::from([(0, vec![(0, 0)])]);
    for (place, job) in jobs.iter().enumerate() {
        let mask = job.needs.iter().fold(0, |mask: Held, need| match needed.iter().position(|place| place == need) {
            Some(bit) => mask | 1 << bit,
            None => {
                exact = false;
                mask
            }
        });
        let keeps: Vec<usize> = needed.iter().copied().filter(|&held| last_need[held] > place).collect();
        let moves: Vec<usize> = keeps.iter().filter_map(|keep| needed.iter().position(|place| place == keep)).collect();
        let own = (last_need[place] > place && keeps.len() < MOST_NEEDED).then_some(keeps.len());
        let mut next: BTreeMap<Held, Front> = BTreeMap::new();
        for (held, front) in &sets {
            let rest = moves.iter().enumerate().fold(0, |rest: Held, (to, from)| rest | (held >> from & 1) << to);
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

/// Captures and deadlines that never go back. Where they did, frames get the earliest capture behind them and the latest
/// deadline before them, and the bound is an upper one.
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

/// For each frame, the last that refers to it; itself if none does.
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

/// Leaves what nothing exceeds: less time for as much, or more value in as much.
fn prune(front: &mut Front) {
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
