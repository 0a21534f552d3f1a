//! Segments without data that are to be sent, besides acknowledgements.

use crate::seq::Seq;

/// What this end owes the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Owed {
    /// The SYN, or the SYN with its ACK.
    pub(super) syn: bool,
    /// A reset.
    pub(super) reset: Option<Reset>,
    /// A segment that makes a peer with a closed window say what it is.
    pub(super) window_probe: bool,
    /// A tail loss probe.
    pub(super) tail_probe: bool,
}

/// A reset (RFC 9293 §3.10.7.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reset {
    pub(super) seq: Seq,
    pub(super) ack: Option<Seq>,
}

impl Owed {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
