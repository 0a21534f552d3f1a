//! Reason for the end of a connection.

use crate::reset::{ResetCode, ResetReason};

/// Reason why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// This end closed it.
    #[error("closed by this end")]
    Local,
    /// The peer closed it normally.
    #[error("closed by the peer")]
    Peer,
    /// The peer reset it.
    #[error("reset by the peer: {}", .0.code)]
    Reset(ResetReason),
    /// This end reset it because the peer broke the protocol.
    #[error("reset by this end, code {}: the peer broke the protocol", .0.code.number())]
    Misbehaved(ResetReason),
    /// The peer stopped answering, or never answered.
    #[error("the peer does not answer")]
    Timeout,
    /// No socket at the peer's UDP or TCP port: an ICMP message or TCP reset said so.
    #[error("connection refused: nobody listens there")]
    Unreachable,
    /// The layer below that encrypts its packets has failed: the driver knows why.
    #[error("the keys of its encryption are lost, or were not agreed on")]
    Unsealed,
    /// The local process that drove the connection is gone and could not close it.
    #[error("what ran this end of it is gone: open it again")]
    Abandoned,
}

impl CloseReason {
    /// Whether the peer refused because it is at capacity: a later attempt may succeed.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Reset(ResetReason { code: ResetCode::TooBusy, .. }))
    }

    /// Whether the peer refused a connection that is not encrypted.
    #[must_use]
    pub const fn wants_encryption(&self) -> bool {
        matches!(self, Self::Reset(ResetReason { code: ResetCode::Unencrypted, .. }))
    }
}
