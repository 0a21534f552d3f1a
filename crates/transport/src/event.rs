//! Events that a connection reports to its driver.

use std::net::SocketAddr;

use timeous_core::{Arrived, Instant};

use crate::close_reason::CloseReason;

/// An event of a connection; no transport has all of them. `R` is the reason for an end, where a protocol has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<R = CloseReason> {
    /// A client has connected to a listening port; only from an [`Endpoint`](crate::Endpoint), before `Connected`.
    Incoming {
        /// The local port.
        port: u16,
    },
    /// The handshake is complete: data may flow.
    Connected,
    /// A datagram from the peer's application.
    Received(Vec<u8>),
    /// New data of a byte stream can be read. Reported once until the next read.
    Readable,
    /// The ADU pulled as `token` has arrived.
    Acked {
        /// Token of the ADU in its source.
        token: u64,
        /// Earliest possible arrival time; zero: unknown.
        at: Instant,
        /// Predicted and actual arrival, if the acknowledgement tells.
        exactly: Option<Arrived>,
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
    /// The peer puts ADUs together from fragments: larger ones than a packet may be cut.
    TakesFragments,
    /// The peer's application no longer reads: nothing more is pulled (RFC 4340 §11.7.2).
    NotListening,
    /// Changed retransmissions did not arrive and the original bytes did: a middlebox rejects changes. From here on
    /// retransmissions are unchanged.
    ChangesRefused,
    /// The maximum packet size has changed, by path MTU discovery (RFC 8899).
    PacketSize {
        /// Largest payload that fits into every data packet, in bytes.
        payload: usize,
        /// Whether packets of the previous size were lost without a message.
        is_black_hole: bool,
    },
    /// The peer has closed its sending direction: no data follows what can be read.
    PeerFinished,
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
        reason: R,
    },
}
