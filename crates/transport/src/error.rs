//! Errors of commands to an endpoint.

use std::net::SocketAddr;

use timeous_core::Misuse;

use crate::packets::ConnectionId;

/// Reason why no connection could be begun. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The endpoint holds its maximum number of connections.
    #[error("{0} connections are open, which is the most: close some, or raise max_connections")]
    TooMany(usize),
    /// Every local port is in use towards this peer.
    #[error("no local port is free towards {0}: wait for TIME-WAIT to end")]
    NoPort(SocketAddr),
    /// The driver broke the call order.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// Reason why a command to a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No such connection, or no longer.
    #[error("there is no connection {0:?}: it has ended")]
    Unknown(ConnectionId),
    /// The driver broke the call order.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}
