//! The states of a connection (RFC 9293 §3.3.2).

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// No connection: not opened yet, or ended.
    Closed,
    /// Waiting for a SYN.
    Listen,
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// Data flows in both directions.
    Established,
    /// This end has sent its FIN.
    FinWait1,
    /// The peer has acknowledged the FIN, and may still send.
    FinWait2,
    /// The peer has sent its FIN, and this end may still send.
    CloseWait,
    /// Both ends have sent a FIN at the same time.
    Closing,
    /// The peer has sent its FIN, and the acknowledgement of this end's FIN is awaited.
    LastAck,
    /// Both ends have finished: the wait lets the connection's segments in flight disappear.
    TimeWait,
}

impl State {
    /// Returns whether both ends know each other's sequence numbers: from SYN-RECEIVED on (RFC 9293 counts from
    /// ESTABLISHED on).
    pub fn is_synchronized(self) -> bool {
        self >= Self::SynReceived
    }

    /// Returns whether this end may send new data.
    pub fn may_send(self) -> bool {
        matches!(self, Self::Established | Self::CloseWait)
    }

    /// Returns whether the peer's data is accepted.
    pub fn may_receive(self) -> bool {
        matches!(self, Self::Established | Self::FinWait1 | Self::FinWait2)
    }

    /// Returns whether the connection can still cause events.
    pub fn is_alive(self) -> bool {
        !matches!(self, Self::Closed | Self::TimeWait)
    }

    /// Returns the state after the peer has acknowledged the FIN.
    pub(super) fn after_fin_acked(self) -> Self {
        match self {
            Self::FinWait1 => Self::FinWait2,
            Self::Closing => Self::TimeWait,
            Self::LastAck => Self::Closed,
            state => state,
        }
    }

    /// Returns the state after the peer's FIN, with all data before it, has arrived.
    pub(super) fn after_peer_fin(self) -> Self {
        match self {
            Self::Established => Self::CloseWait,
            Self::FinWait1 => Self::Closing,
            Self::FinWait2 => Self::TimeWait,
            state => state,
        }
    }
}
