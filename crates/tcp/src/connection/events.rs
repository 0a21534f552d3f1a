//! Events and counters of a connection.

/// An event of a connection.
pub type Event = timeous_transport::Event<CloseReason>;

/// Reason for the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// Both ends have sent all their data, and it has arrived.
    #[error("both ends have finished")]
    Finished,
    /// This end aborted it.
    #[error("broken off by this end")]
    Aborted,
    /// The peer refused it.
    #[error("refused by the peer")]
    Refused,
    /// The peer reset it.
    #[error("reset by the peer")]
    Reset,
    /// The peer became unreachable, or never answered.
    #[error("the peer does not answer")]
    Timeout,
}

/// Counters of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Segments sent, of every kind.
    pub segments_sent: u64,
    /// Segments sent with new data.
    pub data_sent: u64,
    /// Stream bytes sent, each counted once.
    pub bytes_sent: u64,
    /// Stream bytes acknowledged by the peer.
    pub bytes_acked: u64,
    /// Retransmitted segments, including probes.
    pub retransmissions: u64,
    /// Retransmitted bytes.
    pub bytes_retransmitted: u64,
    /// Segments of new data that carried previous data once more (bundles).
    pub bundles: u64,
    /// Bytes of previous data in bundles.
    pub bytes_bundled: u64,
    /// Losses repaired by a bundle, and detected only by missing DSACKs.
    pub hidden_losses: u64,
    /// Retransmissions with another datagram.
    pub replaced: u64,
    /// Retransmissions with padding.
    pub padded: u64,
    /// Retransmission timeouts (RFC 6298 §5).
    pub timeouts: u64,
    /// Spurious timeouts (RFC 3522).
    pub spurious_timeouts: u64,
    /// Fast recoveries (RFC 6675 §5, RFC 6582).
    pub recoveries: u64,
    /// Window reductions for ECN marks (RFC 3168 §6.1.2).
    pub ecn_reductions: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub tail_probes: u64,
    /// Window probes sent (RFC 9293 §3.8.6.1).
    pub window_probes: u64,
    /// Acceptable segments received, of every kind.
    pub segments_received: u64,
    /// Stream bytes received in order.
    pub bytes_received: u64,
    /// Data segments received with a CE mark.
    pub ce_received: u64,
    /// Segments that are not TCP, or not of this connection.
    pub malformed: u64,
    /// Unacceptable segments: outside of the window, without ACK, or acknowledging data not sent yet.
    pub unexpected: u64,
    /// Challenge ACKs sent (RFC 5961).
    pub challenges: u64,
}
