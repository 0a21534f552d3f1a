//! Shared parts of the experiments of Hasan et al. §4: one stream beside FTP and web traffic over a
//! narrow link, by each transport.

pub(crate) mod apart;
pub(crate) mod order;
pub(crate) mod outcome;
mod runs;
pub(crate) mod setup;
pub(crate) mod spread;
mod trial;

pub(crate) use apart::Apart;
pub(crate) use order::{Order, PAPERS};
pub(crate) use outcome::Outcome;
pub(crate) use runs::{NS2, TODAY, run, run_apart};
pub(crate) use setup::Way;
pub(crate) use spread::Spread;
