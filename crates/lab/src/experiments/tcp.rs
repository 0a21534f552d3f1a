//! Shared parts of the experiments with TCP: its ends, one of foreign code among them, its paths, and throughput models.

pub(crate) mod alone;
pub(crate) mod end;
pub(crate) mod formula;
pub(crate) mod shared;
