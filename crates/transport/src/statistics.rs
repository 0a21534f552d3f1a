//! Counters of a connection, for applications.

/// Counters of a connection since it began. A transport leaves zero what it does not count.
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
    /// Datagrams that are no packets of this connection.
    pub malformed: u64,
    /// Packets with sequence or acknowledgement numbers out of range (RFC 4340 §7.5.3).
    pub sequence_invalid: u64,
    /// Duplicate packets.
    pub duplicates: u64,
    /// Packets of a type that is not allowed in the current state (RFC 4340 §8.5, steps 4 and 7).
    pub unexpected: u64,
    /// Present maximum packet size, in bytes; zero until the connection is open, and without path MTU discovery.
    pub packet_size: u64,
    /// Falls of the path MTU without a message from the path: packets of the previous size were lost (RFC 8899 §4.3).
    pub black_holes: u64,
    /// Sync packets sent, probes of the path MTU included.
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
