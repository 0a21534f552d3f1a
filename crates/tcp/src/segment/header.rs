//! The header without its options (RFC 9293 §3.1).

use super::flags::Flags;
use crate::seq::Seq;

/// The header without its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub dest_port: u16,
    /// Sequence number of the first byte of data, or of the SYN if there is one.
    pub seq: Seq,
    /// Acknowledgement number; `None` sets no ACK bit.
    pub ack: Option<Seq>,
    /// Control bits without ACK and URG.
    pub flags: Flags,
    /// Receive window as on the wire: scaled, except on a SYN (RFC 7323 §2.2).
    pub window: u16,
    /// Urgent pointer; `None` sets no URG bit.
    pub urgent: Option<u16>,
}

impl Header {
    /// Length of a header without options, in bytes.
    pub const MIN_LEN: usize = 20;

    /// Creates a header without control bits, acknowledgement and window.
    pub const fn new(source_port: u16, dest_port: u16, seq: Seq) -> Self {
        Self { source_port, dest_port, seq, ack: None, flags: Flags::NONE, window: 0, urgent: None }
    }
}
