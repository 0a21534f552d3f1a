//! AV1: open bitstream units (OBUs), sequence and frame headers, and the frames that a temporal unit refers to.

pub(crate) mod bits;
mod frame;
pub(crate) mod obu;
mod sequence;
#[cfg(test)]
mod tests;
pub(crate) mod units;
