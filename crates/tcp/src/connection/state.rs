//! The states of a connection (RFC 9293 §3.3.2).

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// No connection, or none any more.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN has come and was answered.
    SynReceived,
    /// Data flow.
    Established,
    /// This end has sent its FIN.
    FinWait1,
    /// The peer has acknowledged it, and goes on sending.
    FinWait2,
    /// The peer has sent its FIN, and this end goes on sending.
    CloseWait,
    /// Both have sent their FINs at the same time.
    Closing,
    /// The peer has finished, and its acknowledgement of our FIN is awaited.
    LastAck,
    /// Both have finished: what is still under way of this connection dies out.
    TimeWait,
}

impl State {
    /// Whether both ends know each other's sequence numbers and the connection has not ended.
    pub fn is_synchronized(self) -> bool {
        self >= Self::SynReceived
    }

    /// Whether this end may send new data.
    pub fn may_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// Whether data from the peer are taken.
    pub fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Whether something may still happen that the driver hears of.
    pub fn is_alive(self) -> bool {
        !matches!(self, Self::Closed | Self::TimeWait)
    }
}
