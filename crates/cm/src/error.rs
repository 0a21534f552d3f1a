//! Errors of the manager's calls.

use timeous_core::{Duration, Instant};

use crate::flow::ClientId;
use crate::flow::FlowId;

/// Error of a call. All are the caller's fault, and the call had no effect.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum CmError {
    /// The flow is not open.
    #[error("flow {0:?} is not open: open it first, and do not use it after close")]
    UnknownFlow(FlowId),
    /// The client has not joined, or has left.
    #[error("client {0:?} is not there: join first, and open nothing after leave")]
    UnknownClient(ClientId),
    /// Bytes were sent without a grant.
    #[error("flow {0:?} holds no grant: request one and wait for it")]
    NotGranted(FlowId),
    /// More bytes were sent on one grant than a packet of the flow may have.
    #[error("{bytes} bytes on one grant of {flow:?}, whose packets have at most {mtu}: open it with a larger mtu")]
    TooLarge {
        /// Flow.
        flow: FlowId,
        /// Bytes sent.
        bytes: u64,
        /// Maximum packet size of the flow.
        mtu: u64,
    },
    /// The flow has too many waiting requests.
    #[error("{flow:?} would have more than {limit} requests waiting: wait for grants before asking for more")]
    TooManyRequests {
        /// Flow.
        flow: FlowId,
        /// Maximum number of waiting requests.
        limit: u32,
    },
    /// Invalid thresholds.
    #[error("thresholds {down} and {up}: the first must be above 0 and at most 1, the second at least 1")]
    Thresholds {
        /// Factor to which the rate must have fallen.
        down: f64,
        /// Factor to which the rate must have risen.
        up: f64,
    },
    /// Weight out of range.
    #[error("a weight of {0}: it must be from 1 to 65536")]
    BadWeight(u32),
    /// Packet size out of range.
    #[error("packets of {0} bytes: an mtu is from 1 to 65535")]
    BadMtu(u64),
    /// Flows of different users, who do not trust each other, would share congestion state.
    #[error("{flow:?} and {with:?} are of different users: only flows of one user may share congestion state")]
    Untrusted {
        /// Flow to be moved.
        flow: FlowId,
        /// Flow that it should join.
        with: FlowId,
    },
    /// Feedback that cannot be true.
    #[error("feedback for {flow:?} is refused: {what}")]
    Implausible {
        /// Flow.
        flow: FlowId,
        /// Reason.
        what: Implausible,
    },
}

/// Reason why feedback cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Implausible {
    /// More bytes were acknowledged or lost than the flow has outstanding.
    #[error("it tells of {claimed} bytes, but only {outstanding} are outstanding")]
    MoreThanSent {
        /// Bytes claimed by the update.
        claimed: u64,
        /// Bytes outstanding.
        outstanding: u64,
    },
    /// Bytes were reported that cannot have completed a round trip yet.
    #[error("it tells of {claimed} bytes, but only {possible} can have been there and back")]
    TooSoon {
        /// Bytes claimed by the update.
        claimed: u64,
        /// Bytes that can have completed a round trip by now.
        possible: u64,
    },
    /// The RTT sample is shorter than the path allows.
    #[error("a round trip of {sample:?} on a path that takes at least {floor:?}")]
    RoundTripTooShort {
        /// RTT sample of the update.
        sample: Duration,
        /// Minimum RTT of the path.
        floor: Duration,
    },
    /// The RTT sample is longer than the maximum packet lifetime.
    #[error("a round trip of {sample:?}: nothing takes longer than {limit:?}")]
    RoundTripTooLong {
        /// RTT sample of the update.
        sample: Duration,
        /// Maximum RTT.
        limit: Duration,
    },
    /// The lost packet was allegedly sent in the future.
    #[error("it tells of the loss of what is sent at {sent_at:?}, which is not yet")]
    LossInFuture {
        /// Alleged send time of the packet.
        sent_at: Instant,
    },
}
