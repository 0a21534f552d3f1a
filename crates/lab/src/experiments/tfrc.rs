//! Shared parts of the experiments with TFRC: bulk flows of several transports over one bottleneck.

pub(crate) mod bed;
pub(super) mod single;
pub(super) mod why;
