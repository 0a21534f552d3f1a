//! RTP of any payload as ADUs: packets of one frame are given up together, and come out as they were.

mod av1;
mod chain;
mod codec;
mod dependency;
mod descriptor;
mod nal;
mod packetize;
mod playout;
mod reader;
mod reports;
#[cfg(test)]
mod sync;
#[cfg(test)]
mod tests;
mod unit;
mod vp8;
mod vp9;

pub use nal::look_for_h264;
pub(crate) use nal::{append_h264, append_h265};
pub use packetize::{PassthroughPacketizer, stream_of, stream_ssrc};
pub use playout::{PassthroughOutput, PassthroughPlayout, PassthroughRelease, is_passthrough};
pub use reader::PassthroughReader;
pub use reports::{StreamClock, StreamReports};
pub use unit::PassthroughUnit;
