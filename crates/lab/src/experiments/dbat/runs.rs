//! Which trials an experiment consists of: every way, at each round trip, for each seed.

use super::apart::Apart;
use super::outcome::Outcome;
use super::setup::Way;
use super::trial::Trial;
use crate::experiment::Run;

/// For titles: every TCP is the paper's, or today's.
pub(crate) const NS2: &str = "with ns-2's TCP";
pub(crate) const TODAY: &str = "with today's TCP";

/// What is otherwise is looked at with so many of the seeds.
const FEW_SEEDS: usize = 5;

/// Runs every way at each of these round trips, in milliseconds, for each seed, with every TCP like that.
pub(crate) fn run(run: &Run<'_>, apart: Apart, rtts: &[u64]) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().collect();
    let trials = trials(&[apart], rtts, &Way::ALL, &seeds);
    let what = if apart == Apart::PAPER { "streams" } else { "streams beside today's TCP" };
    run.each(what, &trials, Trial::run)
}

/// Runs these ways with each of these things otherwise, for the first seeds.
pub(crate) fn run_apart(run: &Run<'_>, aparts: &[Apart], rtts: &[u64], ways: &[Way]) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().take(FEW_SEEDS).collect();
    run.each("streams, something otherwise", &trials(aparts, rtts, ways, &seeds), Trial::run)
}

fn trials(aparts: &[Apart], rtts: &[u64], ways: &[Way], seeds: &[u64]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for &apart in aparts {
        for &rtt in rtts {
            for &way in ways {
                trials.extend(seeds.iter().map(|&seed| Trial { way, rtt, seed, apart }));
            }
        }
    }
    trials
}
