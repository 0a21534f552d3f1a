//! Destination of flows, which determines what flows share congestion state.

use std::net::IpAddr;

/// User of the host, by the host's number for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct User(pub u32);

/// Destination, uplink and trust domain that flows must have in common to share congestion state.
///
/// The port is not part of it: all flows to one host are assumed to take one path (Andersen et al. §2). Another DSCP
/// may be queued separately and has its own macroflow; another source address may mean another uplink, and has its own,
/// too (RFC 3124 §5). So has each user whose feedback the host cannot verify: users
/// who lie about their packets harm only themselves (Andersen et al. §5, "Trust issues").
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::{Destination, User};
/// let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// assert_ne!(Destination::from(host), Destination::from(host).with_user(User(1_000)));
/// // As an IPv6 socket shows it: the same host, with the same macroflow.
/// let mapped = IpAddr::V6(Ipv4Addr::LOCALHOST.to_ipv6_mapped());
/// assert_eq!(Destination::from(mapped), Destination::from(host));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Destination {
    /// Address of the host.
    pub addr: IpAddr,
    /// Differentiated Services code point of the packets.
    pub dscp: u8,
    /// Source address of the packets, if the application has chosen another than the route's own: the address of a second
    /// uplink. `None`: the route's own.
    pub source: Option<IpAddr>,
    /// User whose unverified feedback the flows rely on. `None`: the host's own transports, which take feedback from
    /// the wire and trust each other.
    pub user: Option<User>,
}

impl Destination {
    /// Returns the same host with another code point.
    pub fn with_dscp(self, dscp: u8) -> Self {
        Self { dscp, ..self }
    }

    /// Returns the same host, reached from another source address than the route's own.
    pub fn with_source(self, source: IpAddr) -> Self {
        Self { source: Some(source.to_canonical()), ..self }
    }

    /// Returns the bytes of the IP header of its packets.
    pub fn ip_header(self) -> u16 {
        if self.addr.is_ipv4() { 20 } else { 40 }
    }

    /// Returns the same host for flows of `user` only.
    pub fn with_user(self, user: User) -> Self {
        Self { user: Some(user), ..self }
    }
}

impl From<IpAddr> for Destination {
    /// An IPv4 address as an IPv6 socket shows it (`::ffff:192.0.2.1`) is the IPv4 host.
    fn from(addr: IpAddr) -> Self {
        Self { addr: addr.to_canonical(), dscp: 0, source: None, user: None }
    }
}
