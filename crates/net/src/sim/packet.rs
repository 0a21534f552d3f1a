//! Packet of a simulated network: real bytes, with the fields of an IP header.

use std::net::SocketAddr;

use timeous_core::Ecn;

use crate::link::Markable;

/// Protocol in the IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// UDP; the header is generated from the addresses, and not part of the payload.
    Udp,
    /// TCP; the segment includes its header.
    Tcp,
}

impl Protocol {
    /// Bytes of headers that are not part of [`Packet::payload`], IP's included.
    fn overhead(self, source: SocketAddr) -> usize {
        let ip = if source.is_ipv4() { 20 } else { 40 };
        match self {
            Self::Udp => ip + 8,
            Self::Tcp => ip,
        }
    }
}

/// A packet from one host to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Identifier of its journey, assigned by the network.
    pub id: u64,
    /// Source address.
    pub source: SocketAddr,
    /// Destination address; routers ignore the port.
    pub destination: SocketAddr,
    /// Protocol of the payload.
    pub protocol: Protocol,
    /// The ECN field; a queue may change it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// The UDP payload, or the TCP segment from its header on.
    pub payload: Vec<u8>,
    /// Remaining hops (TTL).
    pub(super) hops_left: u8,
    /// Index of the destination host, looked up once.
    pub(super) bound_for: u32,
}

impl Packet {
    /// Creates a packet that was not sent yet.
    pub fn new(protocol: Protocol, source: SocketAddr, destination: SocketAddr, ecn: Ecn, payload: Vec<u8>) -> Self {
        Self { id: 0, source, destination, protocol, ecn, payload, hops_left: 0, bound_for: 0 }
    }

    /// Length on a link in bytes: that of the IP packet.
    pub fn wire_len(&self) -> usize {
        self.protocol.overhead(self.source) + self.payload.len()
    }
}

impl Markable for Packet {
    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark(&mut self) {
        self.ecn = Ecn::Ce;
    }
}
