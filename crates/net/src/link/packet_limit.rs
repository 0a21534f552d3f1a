//! Size of the largest packet that a link carries.

use timeous_core::{Duration, Instant};

/// Limit of the packet size: larger packets vanish, without a message to their sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PacketLimit {
    /// Packets of any size pass.
    #[default]
    None,
    /// Packets of at most this size pass, in bytes.
    Bytes(usize),
    /// The limit is another one from a time on: a route changes.
    Changes {
        /// Limit before, in bytes.
        first: usize,
        /// Time of the change, from [`Instant::ZERO`].
        at: Duration,
        /// Limit afterwards, in bytes.
        then: usize,
    },
}

impl PacketLimit {
    /// Whether a packet of `len` bytes is too large at `now`.
    pub(super) fn excludes(self, now: Instant, len: usize) -> bool {
        match self {
            Self::None => false,
            Self::Bytes(most) => len > most,
            Self::Changes { first, at, then } => len > if now < Instant::ZERO + at { first } else { then },
        }
    }
}
