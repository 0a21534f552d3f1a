//! Identification of connections: ID, route, flow key.

use std::net::{IpAddr, SocketAddr};

use crate::packet::Encapsulation;

/// ID of a connection in its endpoint; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Path of a packet: the hosts, and UDP or native IP. A [`SocketAddr`] converts to the route to a peer in UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    remote: SocketAddr,
    local: Option<IpAddr>,
    association: Option<u32>,
}

impl Route {
    /// Creates a native route, IP protocol 33. The port of `remote` is ignored.
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
        Self { remote, local: Some(local), association: None }
    }

    /// Creates a route in UDP whose packets a layer below encrypts and authenticates under this association. Connections of
    /// other associations, or of none, never take its packets, whatever their addresses.
    pub fn sealed(remote: SocketAddr, association: u32) -> Self {
        Self { remote, local: None, association: Some(association) }
    }

    /// Association of the layer below that encrypts; `None`: packets are not encrypted.
    pub fn association(&self) -> Option<u32> {
        self.association
    }

    /// The peer's address: in UDP with its port, natively with port zero.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Local address of a native route, which the checksum covers; `None` in UDP, where the socket knows it.
    pub fn local(&self) -> Option<IpAddr> {
        self.local
    }

    /// Whether a peer on this route may go on by the other: only its address differs.
    pub(super) fn is_movable_to(&self, other: &Self) -> bool {
        (self.local, self.association) == (other.local, other.association)
    }

    /// Encapsulation of packets on this route; `otherwise` for UDP.
    pub(super) fn encapsulation(&self, otherwise: Encapsulation) -> Encapsulation {
        match self.local {
            Some(source) => Encapsulation::Native { source, destination: self.remote.ip() },
            None => otherwise,
        }
    }
}

impl From<SocketAddr> for Route {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: None, association: None }
    }
}

/// Key that identifies a connection; in UDP the socket fixes the rest of RFC 6773's 6-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    // First, as they differ most: comparisons end here.
    pub(super) remote_port: u16,
    pub(super) local_port: u16,
    pub(super) route: Route,
}
