//! Identifiers of an endpoint's connections.

use std::net::SocketAddr;

/// Identifier of a connection of an endpoint. It is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Key of a connection at one host: both addresses and ports (RFC 9293 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
}
