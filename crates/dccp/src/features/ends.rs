//! Roles and locations of the two ends in a negotiation.

/// Role of an end in the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The end that requested the connection.
    Client,
    /// The end that was requested; its preferences win (§6.3.1).
    Server,
}

/// Location of a feature: most features exist twice, once for each end (§3.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Location {
    /// At this end: we send `Change L` and `Confirm L`.
    Local,
    /// At the peer: we send `Change R` and `Confirm R`.
    Remote,
}
