//! The two ends of a connection, as negotiation sees them.

/// Which end of the connection this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// It asked for the connection.
    Client,
    /// It was asked; its preferences win (§6.3.1).
    Server,
}

/// Where a feature is: a connection has most features twice, once for each end (§3.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Location {
    /// Here: we send `Change L` and `Confirm L`.
    Local,
    /// At the peer's: we send `Change R` and `Confirm R`.
    Remote,
}
