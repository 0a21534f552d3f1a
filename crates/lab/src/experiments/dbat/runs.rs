//! Trials of an experiment: every transport, at each round-trip time, for each seed.

use super::differences::SetupDifference;
use super::outcome::Outcome;
use super::setup::StreamTransport;
use super::trial::Trial;
use crate::experiment::Run;

/// Phrases for titles: the paper's TCP, or today's.
pub(crate) const NS2: &str = "with ns-2's TCP";
pub(crate) const TODAY: &str = "with today's TCP";

/// Number of seeds for runs with single differences.
const FEW_SEEDS: usize = 5;

/// Runs every transport at each of these round-trip times (milliseconds) for each seed, with this
/// TCP.
pub(crate) fn run(run: &Run<'_>, apart: SetupDifference, rtts: &[u64]) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().collect();
    let trials = trials(&[apart], rtts, &StreamTransport::ALL, &seeds);
    let what = if apart == SetupDifference::PAPER { "streams" } else { "streams beside today's TCP" };
    run.each(what, &trials, Trial::run)
}

/// Runs these transports with each of these differences, for the first seeds.
pub(crate) fn run_apart(
    run: &Run<'_>,
    aparts: &[SetupDifference],
    rtts: &[u64],
    ways: &[StreamTransport],
) -> Vec<Outcome> {
    let seeds: Vec<u64> = run.seeds().take(FEW_SEEDS).collect();
    run.each("streams, something otherwise", &trials(aparts, rtts, ways, &seeds), Trial::run)
}

fn trials(aparts: &[SetupDifference], rtts: &[u64], ways: &[StreamTransport], seeds: &[u64]) -> Vec<Trial> {
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
