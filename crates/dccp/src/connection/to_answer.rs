//! What the peer's options ask this end to say.

use timeous_core::Instant;

use crate::options::Ticks;

/// What a packet of this end will say because the peer's options asked for it.
#[derive(Clone, Debug, Default)]
pub(super) struct ToAnswer {
    /// A Timestamp to be echoed, and when it came (RFC 4340 §13.3).
    pub(super) timestamp: Option<(Ticks, Instant)>,
    /// The server's Init Cookies, to be repeated until it shows that the handshake is complete (§8.1.4).
    pub(super) cookies: Vec<Vec<u8>>,
}
