//! How an endpoint tells its connections apart.

use std::net::SocketAddr;

/// A connection of an endpoint. It is never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// What tells one connection from another on one UDP socket: the rest of RFC 6773's 6-tuple is the socket's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub(super) remote: SocketAddr,
    pub(super) remote_port: u16,
    pub(super) local_port: u16,
}
