//! What the experiments with TCP share: its ends, its paths, and what models say of it.

pub(crate) mod end;
pub(crate) mod formula;
pub(crate) mod shared;
