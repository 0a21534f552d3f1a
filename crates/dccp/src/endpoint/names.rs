//! How an endpoint tells its connections apart.

use std::net::{IpAddr, SocketAddr};

use crate::packet::Encapsulation;

/// A connection of an endpoint. It is never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Between which hosts a packet travels, and in what. A [`SocketAddr`] is the way to a peer in UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    remote: SocketAddr,
    local: Option<IpAddr>,
}

impl Route {
    /// In IP itself, as protocol 33. The port of `remote` means nothing.
    ///
    /// ```
    /// use timeous_dccp::Route;
    /// let route = Route::native("192.0.2.1".parse()?, "192.0.2.7:5004".parse()?);
    /// assert_eq!(route.local(), Some("192.0.2.1".parse()?));
    /// assert_eq!(route.remote(), "192.0.2.7:0".parse()?);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn native(local: IpAddr, mut remote: SocketAddr) -> Self {
        remote.set_port(0);
        Self { remote, local: Some(local) }
    }

    /// The peer: its UDP address, or its IP address with port zero.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// The address here, natively: it is part of the checksum. `None` in UDP, where the socket knows it.
    pub fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// How a packet travels between the two; in UDP as `otherwise` says.
    pub(super) fn encapsulation(&self, otherwise: Encapsulation) -> Encapsulation {
        match self.local {
            Some(source) => Encapsulation::Native { source, destination: self.remote.ip() },
            None => otherwise,
        }
    }
}

impl From<SocketAddr> for Route {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None }
    }
}

/// What tells one connection from another: in UDP, the rest of RFC 6773's 6-tuple is the socket's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub(super) route: Route,
    pub(super) remote_port: u16,
    pub(super) local_port: u16,
}
