//! Feature negotiation: attributes of a connection on whose values both ends agree (RFC 4340 §6).

mod error;
mod negotiation;
mod number;
mod table;

pub use error::{NegotiationError, ProposeError};
pub use number::{Feature, Rule};
pub use table::{Agreement, Features};

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

#[cfg(test)]
mod tests;
