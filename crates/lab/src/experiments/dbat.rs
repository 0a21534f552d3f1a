//! Hasan et al. §4: what their experiments share. One stream beside FTP and web traffic over a narrow link, by each
//! transport.

pub(crate) mod apart;
pub(crate) mod outcome;
pub(crate) mod setup;
pub(crate) mod spread;
mod trial;

pub(crate) use apart::Apart;
pub(crate) use outcome::Outcome;
pub(crate) use setup::Way;
pub(crate) use spread::Spread;
use trial::Trial;

use crate::experiment::Run;

/// What is otherwise is looked at with so many of the seeds.
const FEW_SEEDS: usize = 5;

/// Runs every way at each of these round trips, in milliseconds, for each seed.
pub(crate) fn run(run: &Run<'_>, rtts: &[u64]) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().collect();
    let trials = trials(&[Apart::NOTHING], rtts, &Way::ALL, &seeds);
    run.each("streams", &trials, Trial::run)
}

/// Runs these ways with each of these things otherwise, for the first seeds.
pub(crate) fn run_apart(run: &Run<'_>, aparts: &[Apart], rtts: &[u64], ways: &[Way]) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().take(FEW_SEEDS).collect();
    run.each("streams, something taken away", &trials(aparts, rtts, ways, &seeds), Trial::run)
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
