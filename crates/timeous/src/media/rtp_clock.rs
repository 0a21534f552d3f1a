//! The RTP clock of video.

/// Ticks a second (RFC 6184 §8.2.1).
pub const RTP_CLOCK_HZ: u32 = 90_000;
