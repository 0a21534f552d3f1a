//! Shared parts of the experiments of Hasan et al. §4: one stream beside FTP and web traffic over a
//! narrow link, by each transport.

pub(crate) mod differences;
pub(crate) mod outcome;
pub(crate) mod ranking;
pub(crate) mod real;
pub(crate) mod setup;
mod trial;

pub(crate) use differences::SetupDifference;
pub(crate) use outcome::Outcome;
pub(crate) use ranking::{PAPERS, Ranking, run_apart};
pub(crate) use setup::StreamTransport;
pub(crate) use trial::{Cell, NS2, Streams, TODAY, WITHOUT_DBAT, WITHOUT_FTP, WITHOUT_RANGE, run};
