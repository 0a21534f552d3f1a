//! Hasan et al. §4: what their experiments share. One stream beside FTP and web traffic over a narrow link, by each
//! transport.

pub(crate) mod outcome;
pub(crate) mod setup;
pub(crate) mod spread;
mod trial;

pub(crate) use outcome::Outcome;
pub(crate) use setup::Way;
pub(crate) use spread::Spread;
use trial::Trial;

use crate::experiment::Run;

/// Runs every way at each of these round trips, in milliseconds, for each seed.
pub(crate) fn run(run: &Run<'_>, rtts: &[u64]) -> Vec<Outcome> {
    let mut trials = Vec::new();
    for &rtt in rtts {
        for way in Way::ALL {
            trials.extend(run.seeds().map(|seed| Trial { way, rtt, seed }));
        }
    }
    run.each("streams", &trials, Trial::run)
}
