//! What a receiver was set to, and what the handshake agreed upon.

use super::acks::DelayedAck;

/// What a receiver was set to, and what the handshake agreed upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverConfig {
    /// Room for bytes that nobody has read, in order or not: RCV.BUFF. 1 GiB at most (RFC 7323 §2.3).
    pub buffer: usize,
    /// Our window scale; 0 unless both ends sent the option ([`window_scale_for`]).
    pub window_scale: u8,
    /// The greatest segment that we told the peer to send.
    pub mss: u16,
    /// Whether the peer takes SACK blocks.
    pub sack: bool,
    /// Whether both ends agreed to ECN.
    pub ecn: bool,
    /// How acknowledgements are held back.
    pub delayed_ack: DelayedAck,
    /// How many stretches may wait beyond the first gap: a peer that sends every other byte costs no more than these.
    pub max_islands: usize,
    /// Whether the application gets the datagrams in the stream, as they come, instead of its bytes.
    pub datagrams: bool,
}

impl ReceiverConfig {
    /// The greatest buffer that a window can tell of: 2^30 bytes (RFC 7323 §2.3).
    pub const MAX_BUFFER: usize = 1 << 30;
}

impl Default for ReceiverConfig {
    /// 128 KiB (as Linux begins), a segment of Ethernet, no options.
    fn default() -> Self {
        Self {
            buffer: 128 << 10,
            window_scale: 0,
            mss: 1_460,
            sack: false,
            ecn: false,
            delayed_ack: DelayedAck::default(),
            max_islands: 1_024,
            datagrams: false,
        }
    }
}

/// The least window scale that can tell of `buffer` bytes (RFC 7323 §2.2).
///
/// ```
/// use timeous_tcp::receiver::window_scale_for;
/// assert_eq!(window_scale_for(65_535), 0);
/// assert_eq!(window_scale_for(6 << 20), 7);
/// ```
pub const fn window_scale_for(buffer: usize) -> u8 {
    let mut shift = 0;
    while shift < crate::segment::MAX_WINDOW_SCALE && buffer >> shift > u16::MAX as usize {
        shift += 1;
    }
    shift
}

/// The window field of the first SYN, which is never scaled (RFC 7323 §2.2).
pub const fn syn_window(buffer: usize) -> u16 {
    if buffer > u16::MAX as usize { u16::MAX } else { buffer as u16 }
}
