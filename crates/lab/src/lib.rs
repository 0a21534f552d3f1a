//! Measuring rig of the laboratory, for its experiments, benchmarks and tests.

pub mod rig;
