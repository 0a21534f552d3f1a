//! H.265: NAL units, parameter sets and slice headers, as far as they tell pictures and which others they refer to.

pub(crate) mod format;
pub(crate) mod nal;
mod parameters;
pub(crate) mod pictures;
mod reference_set;
mod sequence;
mod slice;
#[cfg(test)]
mod tests;
