//! Way that a call takes: to the other end, from an address of this host.

use std::net::{IpAddr, SocketAddr};

/// Ends of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Address of the listener.
    pub remote: SocketAddr,
    /// Local address to connect from; `None`: the route's own.
    pub local: Option<IpAddr>,
    /// That address, if it is not the route's own: another uplink, which shares no path state with others.
    pub uplink: Option<IpAddr>,
}
