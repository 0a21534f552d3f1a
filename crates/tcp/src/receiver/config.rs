//! Settings of a receiver, with the options negotiated in the handshake.

use super::acks::DelayedAck;
use crate::record::Framing;

/// Settings of a receiver, with the options negotiated in the handshake.
#[derive(Clone, Debug)]
pub struct ReceiverConfig {
    /// Receive buffer in bytes, RCV.BUFF: in-order and out-of-order data. At most 1 GiB (RFC 7323 §2.3).
    pub buffer: usize,
    /// Our window scale; 0 unless both ends sent the option ([`window_scale_for`]).
    pub window_scale: u8,
    /// Maximum segment size announced to the peer.
    pub mss: u16,
    /// Whether the peer accepts SACK blocks.
    pub sack: bool,
    /// Whether ECN was negotiated.
    pub ecn: bool,
    /// Delayed acknowledgements.
    pub delayed_ack: DelayedAck,
    /// Maximum number of islands beyond the first gap: the bound for a peer that sends every other byte.
    pub max_islands: usize,
    /// Framing of the datagrams that the application reads, as they arrive; `None`: it reads bytes.
    pub datagrams: Option<Framing>,
}

impl ReceiverConfig {
    /// Maximum buffer that a window can announce: 2^30 bytes (RFC 7323 §2.3).
    pub const MAX_BUFFER: usize = 1 << 30;
}

impl Default for ReceiverConfig {
    /// Returns 128 KiB (as Linux begins), an Ethernet segment, no options.
    fn default() -> Self {
        Self {
            buffer: 128 << 10,
            window_scale: 0,
            mss: 1_460,
            sack: false,
            ecn: false,
            delayed_ack: DelayedAck::default(),
            max_islands: 1_024,
            datagrams: None,
        }
    }
}

/// Returns the minimum window scale that can announce `buffer` bytes (RFC 7323 §2.2).
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

/// Returns the window field of a SYN, which is never scaled (RFC 7323 §2.2).
pub const fn syn_window(buffer: usize) -> u16 {
    if buffer > u16::MAX as usize { u16::MAX } else { buffer as u16 }
}
