//! Path of a packet, and the key that identifies its connection.

use std::net::{IpAddr, SocketAddr};

use crate::packet::Encapsulation;

/// Path of a packet: the hosts, and UDP or native IP. A [`SocketAddr`] converts to the route to a peer in UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    remote: SocketAddr,
    local: Local,
}

/// This end of a route: what the packets travel in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Local {
    /// UDP, at the socket's address.
    Udp,
    /// UDP, encrypted and authenticated by a layer below, under this association.
    Sealed(u32),
    /// IP, at this address, which the checksum covers.
    Native(IpAddr),
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
        Self { remote, local: Local::Native(local) }
    }

    /// Creates a route in UDP whose packets a layer below encrypts and authenticates under this association. Connections of
    /// other associations, or of none, never take its packets, whatever their addresses.
    pub fn sealed(remote: SocketAddr, association: u32) -> Self {
        Self { remote, local: Local::Sealed(association) }
    }

    /// This end of the route.
    pub fn end(&self) -> Local {
        self.local
    }

    /// The peer's address: in UDP with its port, natively with port zero.
    pub fn remote(&self) -> SocketAddr {
        self.remote
    }

    /// Local address of a native route, which the checksum covers; `None` in UDP, where the socket knows it.
    pub fn local(&self) -> Option<IpAddr> {
        match self.local {
            Local::Native(address) => Some(address),
            Local::Udp | Local::Sealed(_) => None,
        }
    }

    /// Encapsulation of packets on this route; `otherwise` for UDP.
    pub(super) fn encapsulation(&self, otherwise: Encapsulation) -> Encapsulation {
        match self.local {
            Local::Native(source) => Encapsulation::Native { source, destination: self.remote.ip() },
            Local::Udp | Local::Sealed(_) => otherwise,
        }
    }
}

impl From<SocketAddr> for Route {
    fn from(remote: SocketAddr) -> Self {
        Self { remote, local: Local::Udp }
    }
}

/// Key that identifies a connection; in UDP the socket fixes the rest of RFC 6773's 6-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    // First, as they differ most: comparisons end here.
    pub(super) remote_port: u16,
    pub(super) local_port: u16,
    pub(super) route: Route,
}
