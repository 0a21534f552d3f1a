//! RTP: packets out of frames, what travels beside them, and the numbers of what comes (RFC 3550).

pub mod control;
pub(crate) mod descriptor;
pub(crate) mod packetize;
pub(crate) mod sdp;
pub(crate) mod sequence;

pub use descriptor::{Distances, FrameDescriptor};

/// The RTP clock of video, in ticks a second (RFC 6184 §8.2.1).
pub const RTP_CLOCK_HZ: u32 = 90_000;
