//! What a connection tells its driver, and what it counts.

/// What happened on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A peer has connected to a listening port; from an [`Endpoint`](crate::Endpoint) only, before `Connected`.
    Incoming {
        /// The local port.
        port: u16,
    },
    /// The handshake is complete: data may flow.
    Connected,
    /// There is something to read that was not there before. It is said once until the next read.
    Readable,
    /// The segment that was pulled as `token` has arrived.
    Acked {
        /// The source's name for it.
        token: u64,
    },
    /// The connection has ended before the segment that was pulled as `token` was acknowledged.
    Lost {
        /// The source's name for it.
        token: u64,
    },
    /// What was sent again as something else did not arrive, and arrived as it was at first: something on the path does
    /// not bear it. From here on what is sent again is what was sent ([`Sending::Records`](crate::Sending::Records)).
    ChangesRefused,
    /// The peer sends nothing more: after what can be read, that is all.
    PeerFinished,
    /// The connection has ended. Everything that was under way has had its `Acked` or `Lost`.
    Closed {
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Both ends have sent all they had, and it has arrived.
    #[error("both ends have finished")]
    Finished,
    /// This end broke it off.
    #[error("broken off by this end")]
    Aborted,
    /// The peer does not want it.
    #[error("refused by the peer")]
    Refused,
    /// The peer broke it off.
    #[error("reset by the peer")]
    Reset,
    /// The peer fell silent, or never answered.
    #[error("the peer does not answer")]
    Timeout,
}

/// What a connection has counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments sent, of every kind.
    pub segments_sent: u64,
    /// Segments sent with new data.
    pub data_sent: u64,
    /// Bytes of the stream sent, each counted once.
    pub bytes_sent: u64,
    /// Bytes of the stream that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Segments sent again, probes among them.
    pub retransmissions: u64,
    /// Bytes sent again.
    pub bytes_retransmitted: u64,
    /// Segments of new data that carried earlier ones once more.
    pub bundles: u64,
    /// Bytes that they carried so.
    pub bytes_bundled: u64,
    /// Losses that came to light only by that: what was lost came with a later segment.
    pub hidden_losses: u64,
    /// Segments that were sent again with another datagram in them.
    pub replaced: u64,
    /// Segments that were sent again with padding in them.
    pub padded: u64,
    /// Retransmission timeouts (RFC 6298 §5).
    pub timeouts: u64,
    /// Of those, for how many nothing was lost (RFC 3522).
    pub spurious_timeouts: u64,
    /// Fast recoveries (RFC 6675 §5, RFC 6582).
    pub recoveries: u64,
    /// Times that the window was reduced for a mark (RFC 3168 §6.1.2).
    pub ecn_reductions: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub tail_probes: u64,
    /// Window probes sent (RFC 9293 §3.8.6.1).
    pub window_probes: u64,
    /// Acceptable segments received, of every kind.
    pub segments_received: u64,
    /// Bytes of the stream received in order.
    pub bytes_received: u64,
    /// Data segments that arrived with a congestion mark.
    pub ce_received: u64,
    /// Segments that are no TCP, or not of this connection.
    pub malformed: u64,
    /// Segments that the peer should not have sent: out of the window, without ACK, of something not sent yet.
    pub unexpected: u64,
    /// Challenge ACKs sent (RFC 5961).
    pub challenges: u64,
}
