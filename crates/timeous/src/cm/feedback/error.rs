//! Reasons to reject an acknowledgement.

/// Reason to reject feedback: the peer's fault, or of an attacker that pretends to be the peer. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FeedbackError {
    /// The datagram is not an acknowledgement.
    #[error("a datagram of {len} bytes is no acknowledgement: is it the application's own?")]
    Malformed {
        /// Its length.
        len: usize,
    },
    /// It acknowledges a packet that was never sent.
    #[error("packet {number} is acknowledged and only {sent} were sent: ignore whoever says so")]
    NotSent {
        /// Number of the packet.
        number: u64,
        /// Number of packets sent.
        sent: u64,
    },
}
