//! Shared parts of the experiments of Lai & Kohler §4.2 and §4.3: measures, claims, and their form
//! on real kernels.

pub(crate) mod ages;
pub(crate) mod own_choice;
pub(crate) mod real;
pub(crate) mod setup;
pub(crate) mod shares;
pub(crate) mod simulated;
