//! Tests of the bound against every set of frames, on small traces.

use timeous_core::{Duration, Rate, Rng};

use super::{Bound, Job, MOST_SETS, Rates, bound};

const MS: u64 = 1_000_000;

/// 100 bytes take 10 ms.
fn rates() -> Rates {
    Rates::fixed(Rate::from_kbps(80))
}

fn job(release: u64, deadline: u64, bytes: u64, needs: &[usize]) -> Job {
    Job { release: release * MS, deadline: deadline * MS, bytes, needs: needs.to_vec(), value: 1 }
}

/// Optimum by enumeration of all sets closed under references, each sent in deadline order.
fn brute(jobs: &[Job], rates: &Rates) -> u64 {
    let feasible = |set: u32| {
        let holds = |place: usize| set >> place & 1 == 1;
        let mut free = 0;
        jobs.iter().enumerate().filter(|(place, _)| holds(*place)).all(|(_, job)| {
            let sent = rates.finish(free.max(job.release), job.bytes);
            free = sent.unwrap_or(u64::MAX);
            free <= job.deadline && job.needs.iter().all(|&need| holds(need))
        })
    };
    let worth =
        |set: u32| jobs.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1).map(|(_, job)| job.value).sum();
    (0..1_u32 << jobs.len()).filter(|&set| feasible(set)).map(worth).max().unwrap_or(0)
}

/// A small trace of some structure: chains, layers, or anything.
fn small(rng: &mut Rng) -> Vec<Job> {
    let (kind, n, gop) = (rng.below(3), 1 + rng.below(12) as usize, 2 + rng.below(5) as usize);
    let mut deadline = 0;
    let latency = 20 + rng.below(80);
    let mut at = 0;
    let mut each = |place: usize| {
        at += rng.below(20);
        deadline = deadline.max(at + latency + rng.below(10));
        let needs = match kind {
            _ if place.is_multiple_of(gop) => vec![],
            0 => vec![place - 1],
            1 if place % 2 == 1 => vec![place - 1],
            1 => vec![place - 2],
            _ => (0..place).filter(|_| rng.chance(0.3)).collect(),
        };
        let head = if place.is_multiple_of(gop) { 3 } else { 1 };
        Job { value: 1 + rng.below(3), ..job(at, deadline, head * (20 + rng.below(150)), &needs) }
    };
    (0..n).map(&mut each).collect()
}

#[test]
fn it_is_the_best_of_all_sets_on_small_traces() {
    let mut rng = Rng::from_seed(7);
    for case in 0..400 {
        let jobs = small(&mut rng);
        let changing: Vec<(Duration, Rate)> =
            (0..20).map(|step| (Duration::from_millis(15 * step), Rate::from_kbps(rng.below(200)))).collect();
        for rates in [rates(), Rates::steps(&changing)] {
            let best = brute(&jobs, &rates);
            assert_eq!(bound(&jobs, &rates), Bound { value: best, exact: true }, "case {case}: {jobs:?}");
        }
    }
}

#[test]
fn a_group_is_cut_short_for_all_of_the_next() {
    // Two groups of an intra frame that takes 60 ms and three others of 30 ms, 20 ms apart.
    let of = |from: u64, first: usize| {
        let rest = (1..4).map(move |n| job(from + 20 * n, from + 20 * n + 100, 300, &[first + n as usize - 1]));
        [job(from, from + 100, 600, &[])].into_iter().chain(rest).collect::<Vec<_>>()
    };
    let jobs = [of(0, 0), of(80, 4)].concat();
    assert_eq!(bound(&jobs, &rates()), Bound { value: 2 + 4, exact: true }, "the head of one, and all of the other");
    assert_eq!(brute(&jobs, &rates()), 6);
}

#[test]
fn deadlines_that_go_back_make_it_an_upper_bound() {
    let jobs = [job(0, 100, 500, &[]), job(0, 50, 500, &[])];
    assert_eq!(bound(&jobs, &rates()), Bound { value: 2, exact: false });
}

#[test]
fn where_sets_are_too_many_it_is_an_upper_bound_and_says_so() {
    // Twelve frames, each of which the last ones need one by one.
    let heads = (0..12).map(|n| job(n, 60 + n, 100, &[]));
    let tails = (12..24).map(|n| job(n, 60 + n, 100, &[n as usize - 12]));
    let jobs: Vec<Job> = heads.chain(tails).collect();
    let found = bound(&jobs, &rates());
    assert!(1 << 12 > MOST_SETS && !found.exact);
    assert!(found.value >= brute(&jobs[..20], &rates()));
}
