//! Lai & Kohler §4.2 and §4.3: what their experiments share, how they are judged, and their form on real kernels.

pub(crate) mod ages;
pub(crate) mod real;
mod seeds;
pub(crate) mod setup;
pub(crate) mod shares;
pub(crate) mod simulated;
