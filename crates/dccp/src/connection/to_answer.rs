//! Received options that require an answer.

use timeous_core::Instant;

use crate::options::Ticks;

/// Answers that the peer's options require from our next packets.
#[derive(Clone, Debug, Default)]
pub(super) struct ToAnswer {
    /// Timestamp to be echoed, and its arrival time (RFC 4340 §13.3).
    pub(super) timestamp: Option<(Ticks, Instant)>,
    /// Init Cookies of the server, repeated until the handshake is known to be complete (§8.1.4).
    pub(super) cookies: Vec<Vec<u8>>,
}
