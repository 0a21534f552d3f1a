//! An outgoing packet, in one piece or two, and the addresses of a received one.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use timeous_core::Ecn;
use timeous_ring::Payload;

/// An outgoing packet: its header, and the payload where it lies.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Destination.
    pub to: SocketAddr,
    /// Source address; `None`: that of the socket, or of the kernel's choice.
    pub from: Option<IpAddr>,
    /// ECN mark.
    pub ecn: Ecn,
    /// The whole packet, or its part before the payload.
    pub header: &'a [u8],
    /// Payload in the ring's memory, if it lies there.
    pub payload: Option<Payload<'a>>,
}

impl Packet<'_> {
    pub(super) fn len(&self) -> usize {
        self.header.len() + self.payload.map_or(0, |payload| payload.len())
    }
}

/// Addresses of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// Sender.
    pub from: SocketAddr,
    /// Local address, for a raw socket.
    pub to: Option<IpAddr>,
}

/// Returns whether the packet travels over IPv4.
pub(super) fn is_ipv4(address: SocketAddr) -> bool {
    match address {
        SocketAddr::V4(_) => true,
        SocketAddr::V6(v6) => Ipv6Addr::to_ipv4_mapped(v6.ip()).is_some(),
    }
}
