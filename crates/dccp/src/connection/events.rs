//! What a connection tells its driver, and what it counts.

use std::net::SocketAddr;

use timeous_core::Instant;

use crate::reset::{ResetCode, ResetReason};
use crate::service::ServiceCode;

/// What happened on a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client has connected to a listening port; from an [`Endpoint`](crate::Endpoint) only, before `Connected`.
    Incoming {
        /// The local DCCP port.
        port: u16,
        /// The service that the client asked for.
        service: ServiceCode,
    },
    /// The handshake is complete: data may flow.
    Connected,
    /// A datagram of the peer's application.
    Received(Vec<u8>),
    /// The ADU that was pulled as `token` has arrived.
    Acked {
        /// The source's name for it.
        token: u64,
        /// When it came, at the earliest.
        at: Instant,
    },
    /// The ADU that was pulled as `token` is taken for lost, or did not reach the peer's application.
    Lost {
        /// The source's name for it.
        token: u64,
    },
    /// The ADU that was pulled as `token` should have been acknowledged by now. What became of it is told in time; who can
    /// use it may offer it again already, if the peer takes that.
    Overdue {
        /// The source's name for it.
        token: u64,
    },
    /// The peer tells what is sent again from what is new: lost ADUs may be offered once more, by their token. Before this,
    /// and with a peer that never says so, they must not.
    TakesRepeats,
    /// The peer's application does not listen any more: nothing further is pulled (RFC 4340 §11.7.2).
    NotListening,
    /// The peer has another address, and has answered from there; from an [`Endpoint`](crate::Endpoint) only.
    Moved {
        /// Where it was.
        from: SocketAddr,
        /// Where it is.
        to: SocketAddr,
    },
    /// The connection has ended. Every ADU that was under way has had its `Acked` or `Lost`.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
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
    /// This end reset it, for what the peer sent.
    #[error("reset by this end, code {}: the peer broke the protocol", .0.code.number())]
    Misbehaved(ResetReason),
    /// The peer fell silent, or never answered.
    #[error("the peer does not answer")]
    Timeout,
    /// Nobody listens at the peer's UDP or TCP port: its host said so.
    #[error("nobody listens there (port unreachable)")]
    Unreachable,
    /// Whoever drove it at this end is gone, and could not close it.
    #[error("what ran this end of it is gone: open it again")]
    Abandoned,
}

impl CloseReason {
    /// Whether the peer serves other callers and has no place for this one: it may be tried again later.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Reset(ResetReason { code: ResetCode::TooBusy, .. }))
    }
}

/// What a connection has counted since it began.
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
    /// Data packets that are taken for lost.
    pub lost: u64,
    /// Data packets that arrived, and whose data did not reach the application here (RFC 4340 §11.7).
    pub data_refused: u64,
    /// Data packets that arrived at the peer, and whose data did not reach its application.
    pub data_dropped: u64,
    /// Of the data packets sent, those with data that were sent before.
    pub repeats_sent: u64,
    /// Data packets that came again, and were not delivered a second time: of what had been thought lost.
    pub repeats_dropped: u64,
    /// Packets of parity sent: they are no application data.
    pub parity_sent: u64,
    /// Packets of parity received.
    pub parity_received: u64,
    /// Of the data received, those that were lost and rebuilt from parity.
    pub rebuilt: u64,
    /// Packets that arrived with a congestion mark.
    pub ce_received: u64,
    /// Acknowledged data packets that the peer saw marked.
    pub ce_acked: u64,
    /// Times that no feedback came in time (RFC 4341 §5).
    pub timeouts: u64,
    /// Times that a packet came after a gap in which application data had been sent for sure: lost, or late
    /// (RFC 4340 §7.7.1).
    pub data_gaps: u64,
    /// Times that the peer asked not to be sent more (RFC 4340 §11.6).
    pub slow_receiver: u64,
    /// Feedback that cannot be true, and was not believed (RFC 4342 §9.2).
    pub implausible: u64,
    /// Receive rates that were above what can have arrived, and were taken for that.
    pub rates_capped: u64,
    /// Datagrams that are no DCCP packets of this connection.
    pub malformed: u64,
    /// Packets with sequence or acknowledgement numbers out of range (RFC 4340 §7.5.3).
    pub sequence_invalid: u64,
    /// Packets that had arrived before.
    pub duplicates: u64,
    /// Packets of a type that this end cannot get in its state (RFC 4340 §8.5, steps 4 and 7).
    pub unexpected: u64,
    /// Sync packets sent.
    pub syncs_sent: u64,
    /// Sync packets received.
    pub syncs_received: u64,
}

impl Statistics {
    /// Packets that a well-behaved peer on a sane path does not send.
    pub fn violations(&self) -> u64 {
        self.malformed + self.sequence_invalid + self.unexpected + self.implausible
    }
}
