//! The nine states of a connection (RFC 4340 §4.3).

/// Where a connection is in its life, in the order of RFC 4340 §4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// There is no connection (any more).
    Closed,
    /// A server waits for a Request.
    Listen,
    /// A client has asked.
    Request,
    /// A server has answered.
    Respond,
    /// A client has its answer, and does not know yet that the server knows.
    PartOpen,
    /// Data flow.
    Open,
    /// A server has asked its client to close.
    CloseReq,
    /// A Close was sent.
    Closing,
    /// Over; old packets die out.
    TimeWait,
}

impl State {
    /// Whether data may flow: the handshake is complete and the end has not begun.
    pub fn is_established(self) -> bool {
        matches!(self, Self::PartOpen | Self::Open)
    }

    /// Whether the peer's packets still matter.
    pub(crate) fn is_alive(self) -> bool {
        !matches!(self, Self::Closed | Self::TimeWait)
    }
}
