//! How an endpoint tells its connections apart.

use std::net::SocketAddr;

/// A connection of an endpoint. It is never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What tells one connection from another at one host: both addresses and ports (RFC 9293 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
}
