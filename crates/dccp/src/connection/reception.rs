//! Receive state of the local application: listening, buffer space, dropped data.

use super::drops::Drops;

/// Receive state of the local application.
#[derive(Clone, Debug)]
pub(super) struct Reception {
    /// Dropped data, to be reported to the peer.
    pub(super) drops: Drops,
    pub(super) listens: bool,
    /// Free receive buffer, in bytes.
    pub(super) room: usize,
    /// Whether the peer is asked not to raise its rate: Slow Receiver (RFC 4340 §11.6).
    pub(super) is_slow: bool,
}

impl Default for Reception {
    fn default() -> Self {
        Self { drops: Drops::default(), listens: true, room: usize::MAX, is_slow: false }
    }
}
