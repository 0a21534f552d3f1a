//! Shared parts of the experiments of Hasan et al. §4: one stream beside FTP and web traffic over a
//! narrow link, by each transport.

pub(crate) mod differences;
pub(crate) mod outcome;
pub(crate) mod ranking;
pub(crate) mod setup;
mod trial;

pub(crate) use differences::SetupDifference;
pub(crate) use outcome::Outcome;
pub(crate) use ranking::{PAPERS, Ranking, run_apart};
pub(crate) use setup::StreamTransport;
pub(crate) use trial::Cell;

use crate::experiment::{Grid, Run};

/// Outcomes of streams by transport, round-trip time and difference of the setup.
pub(crate) type Streams = Grid<Cell, Outcome>;

/// Phrases for titles: the paper's TCP, or today's.
pub(crate) const NS2: &str = "with ns-2's TCP";
pub(crate) const TODAY: &str = "with today's TCP";

/// Runs every transport at each of these round-trip times (milliseconds) for each seed, with the paper's TCP and with
/// today's.
pub(crate) fn run(run: &Run<'_>, rtts: &[u64]) -> (Streams, Streams) {
    let of = |what, apart| run.grid(what, Cell::all(&[apart], rtts, &StreamTransport::ALL), trial::run);
    (of("streams", SetupDifference::PAPER), of("streams beside today's TCP", SetupDifference::TODAY))
}
