//! Pending segments without data, besides acknowledgements.

use crate::seq::Seq;

/// Segments pending for transmission.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingSegments {
    /// A SYN or a SYN-ACK.
    pub(super) syn: bool,
    /// A reset.
    pub(super) reset: Option<Reset>,
    /// A window probe, which makes the peer report its window.
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

impl PendingSegments {
    pub(super) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}
