//! Reasons to reject feedback as impossible (RFC 4342 §9.2, RFC 5348 §10).

use timeous_cm::tfrc::ReportError;
use timeous_core::Duration;

/// Reason why CCID 3 feedback is rejected. All are the peer's fault; the feedback is ignored, so the rate falls with
/// the nofeedback timer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Implausible {
    /// Skip Length exceeds the maximum (RFC 4342 §8.6.1).
    #[error("the peer leaves {0} packets out of its loss intervals, and 3 is the most")]
    Skip(u8),
    /// The intervals reach back beyond the first packet.
    #[error("the peer's loss intervals reach back by {packets} packets, and {sent} were sent")]
    BeforeTheFirst {
        /// Packets in the intervals read so far.
        packets: u64,
        /// Packets sent up to the acknowledged one.
        sent: u64,
    },
    /// An interval other than the first one begins without a loss.
    #[error("the peer reports a loss interval that begins with no loss, and is not the first")]
    NoLoss,
    /// An interval has more data packets than packets.
    #[error("the peer reports {data} data packets in an interval of {packets}")]
    DataLength {
        /// The data length.
        data: u32,
        /// The interval's length.
        packets: u64,
    },
    /// A nonce that no packet carried.
    #[error("the peer echoes a nonce that no packet carried")]
    Nonce,
    /// The Ack Vector reports a lost data packet inside a lossless part of the loss intervals.
    #[error("the peer's Ack Vector tells of a loss where its loss intervals have none")]
    Contradiction,
    /// The reported delay exceeds the time since the packet was sent.
    #[error("the peer says that it had a packet for {delay:?}, which was sent {passed:?} ago")]
    Delay {
        /// Delay reported by the peer.
        delay: Duration,
        /// Time since the packet was sent.
        passed: Duration,
    },
    /// Feedback with values out of range, such as a loss event rate above 1; or a mistake of ours.
    #[error("{0}")]
    Report(#[from] ReportError),
}
