//! Shared parts of the experiments with TCP: its ends, its paths, and throughput models.

pub(crate) mod end;
pub(crate) mod formula;
pub(crate) mod shared;
