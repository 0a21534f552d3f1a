//! What is wrong with a call.

use timeous_core::{Duration, Instant};

use crate::flow::ClientId;
use crate::flow::FlowId;

/// What is wrong with a call. All are the caller's; nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
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
    /// More bytes than a packet of the flow has were sent on one grant.
    #[error("{bytes} bytes on one grant of {flow:?}, whose packets have at most {mtu}: open it with a larger mtu")]
    TooLarge {
        /// The flow.
        flow: FlowId,
        /// What was sent.
        bytes: u64,
        /// What a grant is for.
        mtu: u64,
    },
    /// More requests would wait than may.
    #[error("{flow:?} would have more than {limit} requests waiting: wait for grants before asking for more")]
    TooManyRequests {
        /// The flow.
        flow: FlowId,
        /// How many may wait.
        limit: u32,
    },
    /// Thresholds that make no sense.
    #[error("thresholds {down} and {up}: the first must be above 0 and at most 1, the second at least 1")]
    Thresholds {
        /// The rate must have fallen to this share.
        down: f64,
        /// The rate must have risen to this multiple.
        up: f64,
    },
    /// A weight that is nothing, or too much.
    #[error("a weight of {0}: it must be from 1 to 65536")]
    BadWeight(u32),
    /// A packet size that no packet has.
    #[error("packets of {0} bytes: an mtu is from 1 to 65535")]
    BadMtu(u64),
    /// Flows of users who do not trust each other would share congestion state.
    #[error("{flow:?} and {with:?} are of different users: only flows of one user may share congestion state")]
    Untrusted {
        /// The flow that was to be moved.
        flow: FlowId,
        /// The flow that it was to join.
        with: FlowId,
    },
    /// Feedback that cannot be true.
    #[error("feedback for {flow:?} is refused: {what}")]
    Implausible {
        /// The flow.
        flow: FlowId,
        /// What is wrong with it.
        what: Implausible,
    },
}

/// Why feedback cannot be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Implausible {
    /// More was acknowledged or lost than the flow has outstanding.
    #[error("it tells of {claimed} bytes, but only {outstanding} are outstanding")]
    MoreThanSent {
        /// What the update claimed.
        claimed: u64,
        /// What it could have claimed.
        outstanding: u64,
    },
    /// Bytes are told of that cannot have been there and back yet.
    #[error("it tells of {claimed} bytes, but only {possible} can have been there and back")]
    TooSoon {
        /// What the update claimed.
        claimed: u64,
        /// What it could have claimed by now.
        possible: u64,
    },
    /// A round trip that is shorter than the path.
    #[error("a round trip of {sample:?} on a path that takes at least {floor:?}")]
    RoundTripTooShort {
        /// What the update claimed.
        sample: Duration,
        /// What it could have claimed.
        floor: Duration,
    },
    /// A round trip that is longer than any packet lives.
    #[error("a round trip of {sample:?}: nothing takes longer than {limit:?}")]
    RoundTripTooLong {
        /// What the update claimed.
        sample: Duration,
        /// What it could have claimed.
        limit: Duration,
    },
    /// What was sent in the future is lost already.
    #[error("it tells of the loss of what is sent at {sent_at:?}, which is not yet")]
    LossInFuture {
        /// When the packet is said to have been sent.
        sent_at: Instant,
    },
}
