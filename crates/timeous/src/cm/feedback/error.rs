//! Why an acknowledgement is not believed.

/// Why feedback is not believed. It is the peer's fault, or somebody's who pretends to be the peer; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeedbackError {
    /// The datagram is no acknowledgement.
    #[error("a datagram of {len} bytes is no acknowledgement: is it the application's own?")]
    Malformed {
        /// Its length.
        len: usize,
    },
    /// It acknowledges what was not sent.
    #[error("packet {number} is acknowledged and only {sent} were sent: ignore whoever says so")]
    NotSent {
        /// The packet.
        number: u64,
        /// How many there are.
        sent: u64,
    },
}
