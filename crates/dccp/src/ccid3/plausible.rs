//! Feedback that cannot be true (RFC 4342 §9.2, RFC 5348 §10).

use timeous_cm::tfrc::ReportError;
use timeous_core::Duration;

/// Why CCID 3 feedback is not believed. All are the peer's fault; the feedback counts as if it had not come, so that the
/// rate falls with the nofeedback timer.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Implausible {
    /// More packets are left out of loss intervals than may be (RFC 4342 §8.6.1).
    #[error("the peer leaves {0} packets out of its loss intervals, and 3 is the most")]
    Skip(u8),
    /// The intervals reach back beyond the first packet.
    #[error("the peer's loss intervals reach back by {packets} packets, and {sent} were sent")]
    BeforeTheFirst {
        /// What the intervals hold, as far as they were read.
        packets: u64,
        /// What there can be.
        sent: u64,
    },
    /// Another interval than the first begins without a loss.
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
    /// One option says that a data packet was lost, another that none was.
    #[error("the peer's Ack Vector tells of a loss where its loss intervals have none")]
    Contradiction,
    /// A packet was acknowledged sooner than it can be.
    #[error("the peer says that it had a packet for {delay:?}, which was sent {passed:?} ago")]
    Delay {
        /// What the peer says.
        delay: Duration,
        /// What has passed since the packet was sent.
        passed: Duration,
    },
    /// What no option can say; our own mistake, or a rate that is no share.
    #[error("{0}")]
    Report(#[from] ReportError),
}
