//! Shared parts of the experiments with layered video over TCP (Birkedal et al. §6): the stream,
//! the link, and the arrivals.

pub(crate) mod real;
mod setup;
mod source;
mod trial;

pub(crate) use setup::{BYTES, LAYERS, RATES, SECONDS, START_UPS, choices};
pub(crate) use trial::{Sender, Trial, ViewerOutcome, run};
