//! What a client and the manager say to each other: a flow's name, and what became of its packets.

use timeous_core::{Duration, Instant};

/// A flow of the Congestion Manager (the paper's `cm_flowid`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

impl FlowId {
    pub(crate) const fn new(id: u64) -> Self {
        Self(id)
    }
}

/// The kind of congestion that a client saw (the paper's `lossmode`, §2.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// Bytes are gone for another reason than congestion (corruption, a receiver that dropped them).
    None,
    /// Some packets of a window were lost.
    Transient,
    /// A timeout: nothing came back.
    Persistent,
    /// Packets were marked (RFC 3168).
    Ecn,
}

/// What a client learnt from its receiver (the paper's `cm_update`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Update {
    /// Bytes that arrived.
    pub acked: u64,
    /// Bytes that did not, or with [`Loss::Ecn`] zero.
    pub lost: u64,
    /// What is to be concluded, and when the newest packet it is concluded from was sent: several losses of one
    /// window are one event, whichever flow reports them. Of a packet that was sent again the last time counts, since
    /// the loss of a retransmission is a second sign of congestion (RFC 5681 §4.3); of an acknowledgement with ECN-Echo
    /// that of the newest packet which it acknowledges.
    pub loss: Option<(Loss, Instant)>,
    /// A round-trip time sample.
    pub rtt: Option<Duration>,
    /// Whether the client is in fast recovery, this acknowledgement included: until that is done the window does not
    /// grow (RFC 6675 §5). False after a timeout, where slow start repairs (RFC 5681 §3.1).
    pub recovering: bool,
    /// Bytes that were told of before and that still count as in flight when a loss is judged: what the receiver holds
    /// beyond a gap is acknowledged for certain only when the gap is filled (`FlightSize`, RFC 5681 §2).
    pub beyond_gap: u64,
}
