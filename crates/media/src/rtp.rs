//! RTP: packets out of frames, and the numbers of what comes (RFC 3550).

pub(crate) mod packetize;
pub(crate) mod sdp;
pub(crate) mod sequence;

/// The RTP clock of video, in ticks a second (RFC 6184 §8.2.1).
pub const RTP_CLOCK_HZ: u32 = 90_000;
