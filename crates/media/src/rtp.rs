//! RTP (RFC 3550): packetizing, sequence numbers, frame descriptors, RTCP and SDP.

pub mod control;
pub(crate) mod descriptor;
pub(crate) mod extension;
pub(crate) mod packetize;
pub(crate) mod reorder;
pub(crate) mod sdp;
pub(crate) mod sequence;
pub(crate) mod session;

pub use descriptor::{Distances, FrameDescriptor};

/// RTP clock rate of video, in ticks per second (RFC 6184 §8.2.1).
pub const RTP_CLOCK_HZ: u32 = 90_000;
