//! A packet on its way out, in one piece or two, and the way of one that came.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use timeous_core::Ecn;
use timeous_ring::Payload;

/// A packet on its way out: what goes before the payload, and the payload where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where to.
    pub to: SocketAddr,
    /// The address to send it from; `None`: that of the socket, or of the kernel's choice.
    pub from: Option<IpAddr>,
    /// The mark to send it with.
    pub ecn: Ecn,
    /// All of it, or what goes before the payload.
    pub header: &'a [u8],
    /// The payload in its zone, if it is there.
    pub payload: Option<Payload<'a>>,
}

impl Packet<'_> {
    pub(super) fn len(&self) -> usize {
        self.header.len() + self.payload.map_or(0, |payload| payload.len())
    }
}

/// Between whom a datagram travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Who sent it.
    pub from: SocketAddr,
    /// The address here, if the socket is a raw one.
    pub to: Option<IpAddr>,
}

/// Whether the packet travels as IPv4.
pub(super) fn is_ipv4(address: SocketAddr) -> bool {
    match address {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(v6) => Ipv6Addr::to_ipv4_mapped(v6.ip()).is_some(),
    }
}
