//! Shared parts of the experiments with TFRC: bulk flows of several transports over one bottleneck.

pub(super) mod pair;
pub(super) mod path_means;
pub(crate) mod topology;
