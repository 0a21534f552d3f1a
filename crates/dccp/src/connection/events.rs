//! Events and counters that a connection reports to its driver.

use std::net::SocketAddr;

use timeous_core::Instant;

use crate::reset::{ResetCode, ResetReason};
use crate::service::ServiceCode;

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has connected to a listening port; only from an [`Endpoint`](crate::Endpoint), before `Connected`.
    Incoming {
        /// The local DCCP port.
        port: u16,
        /// The service that the client asked for.
        service: ServiceCode,
    },
    /// The handshake is complete: data may flow.
    Connected,
    /// A datagram from the peer's application.
    Received(Vec<u8>),
    /// The ADU pulled as `token` has arrived.
    Acked {
        /// Token of the ADU in its source.
        token: u64,
        /// Earliest possible arrival time.
        at: Instant,
    },
    /// The ADU pulled as `token` is considered lost, or did not reach the peer's application.
    Lost {
        /// Token of the ADU in its source.
        token: u64,
    },
    /// The acknowledgement of the ADU pulled as `token` is overdue. Its fate follows; if the peer accepts
    /// retransmissions, the source may offer it again already.
    Overdue {
        /// Token of the ADU in its source.
        token: u64,
    },
    /// The peer accepts retransmissions: lost ADUs may be offered again under their token. Before this event, and with
    /// a peer that never agrees, they must not.
    TakesRepeats,
    /// The peer's application no longer reads: nothing more is pulled (RFC 4340 §11.7.2).
    NotListening,
    /// The peer has moved to another address and answered from there; only from an [`Endpoint`](crate::Endpoint).
    Moved {
        /// Previous address.
        from: SocketAddr,
        /// New address.
        to: SocketAddr,
    },
    /// The connection has ended. Every ADU in flight has had its `Acked` or `Lost`.
    Closed {
        /// Reason for the end.
        reason: CloseReason,
    },
}

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
    #[error("nobody listens there (port unreachable)")]
    Unreachable,
    /// The layer below that encrypts its packets has failed: the driver knows why.
    #[error("its packets cannot be encrypted")]
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
}

/// Counters of a connection since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Packets sent, of every type.
    pub packets_sent: u64,
    /// Packets with application data sent.
    pub data_sent: u64,
    /// Application bytes sent.
    pub bytes_sent: u64,
    /// Valid packets received, of every type.
    pub packets_received: u64,
    /// Packets with application data received.
    pub data_received: u64,
    /// Application bytes received.
    pub bytes_received: u64,
    /// Data packets that the peer has acknowledged.
    pub acked: u64,
    /// Data packets considered lost.
    pub lost: u64,
    /// Data packets that arrived, but whose data did not reach the application here (RFC 4340 §11.7).
    pub data_refused: u64,
    /// Data packets that arrived at the peer, but whose data did not reach its application.
    pub data_dropped: u64,
    /// Data packets sent that were retransmissions; included in `data_sent`.
    pub repeats_sent: u64,
    /// Duplicate data packets received and not delivered again: retransmissions of data that had arrived.
    pub repeats_dropped: u64,
    /// Parity packets sent; not counted as application data.
    pub parity_sent: u64,
    /// Parity packets received.
    pub parity_received: u64,
    /// Received datagrams that were rebuilt from parity; included in `data_received`.
    pub rebuilt: u64,
    /// Packets received with an ECN congestion mark.
    pub ce_received: u64,
    /// Acknowledged data packets that reached the peer with an ECN mark.
    pub ce_acked: u64,
    /// Feedback timeouts (RFC 4341 §5).
    pub timeouts: u64,
    /// Gaps in received sequence numbers that contained application data, lost or reordered (RFC 4340 §7.7.1).
    pub data_gaps: u64,
    /// Slow Receiver options received (RFC 4340 §11.6).
    pub slow_receiver: u64,
    /// Feedback rejected as impossible (RFC 4342 §9.2).
    pub implausible: u64,
    /// Reported receive rates above what can have arrived, which were capped.
    pub rates_capped: u64,
    /// Datagrams that are not DCCP packets of this connection.
    pub malformed: u64,
    /// Packets with sequence or acknowledgement numbers out of range (RFC 4340 §7.5.3).
    pub sequence_invalid: u64,
    /// Duplicate packets.
    pub duplicates: u64,
    /// Packets of a type that is not allowed in the current state (RFC 4340 §8.5, steps 4 and 7).
    pub unexpected: u64,
    /// Sync packets sent.
    pub syncs_sent: u64,
    /// Sync packets received.
    pub syncs_received: u64,
}

impl Statistics {
    /// Sum of the packets that a correct peer on a sane path does not send.
    pub fn violations(&self) -> u64 {
        self.malformed + self.sequence_invalid + self.unexpected + self.implausible
    }
}
