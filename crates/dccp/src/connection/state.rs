//! The nine states of a connection (RFC 4340 §4.3).

/// State of a connection, in the order of RFC 4340 §4.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// No connection, or no longer.
    Closed,
    /// A server waits for a Request.
    Listen,
    /// A client has sent its Request.
    Request,
    /// A server has sent its Response.
    Respond,
    /// A client has the Response, but no proof that the server got its acknowledgement.
    PartOpen,
    /// Established: data flow.
    Open,
    /// A server has asked its client to close.
    CloseReq,
    /// This end has sent a Close.
    Closing,
    /// Closed; waits until old packets have expired.
    TimeWait,
}

impl State {
    /// Whether data may flow: the handshake is complete and the end has not begun.
    pub fn is_established(self) -> bool {
        matches!(self, Self::PartOpen | Self::Open)
    }

    /// Whether the peer's packets are still processed.
    pub(crate) fn is_alive(self) -> bool {
        !matches!(self, Self::Closed | Self::TimeWait)
    }
}
