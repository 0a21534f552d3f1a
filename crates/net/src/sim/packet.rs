//! A packet of a simulated network: real bytes, and what an IP header says of them.

use std::net::SocketAddr;

use timeous_core::Ecn;

use crate::link::Markable;

/// What follows the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// A UDP header, which is made from the addresses, and the payload.
    Udp,
    /// A TCP segment, its header included.
    Tcp,
}

impl Protocol {
    /// Bytes of header that are not part of [`Packet::payload`], IP's among them.
    fn overhead(self, source: SocketAddr) -> usize {
        let ip = if source.is_ipv4() { 20 } else { 40 };
        match self {
            Self::Udp => ip + 8,
            Self::Tcp => ip,
        }
    }
}

/// A packet on its way from one host to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// By which its journey is followed; given by the network.
    pub id: u64,
    /// From where.
    pub source: SocketAddr,
    /// To where; routers look at its address only.
    pub destination: SocketAddr,
    /// What the payload is.
    pub protocol: Protocol,
    /// The ECN field; a queue may change it to [`Ecn::Ce`].
    pub ecn: Ecn,
    /// The UDP payload, or the TCP segment from its header on.
    pub payload: Vec<u8>,
    /// How many routers may still pass it on.
    pub(super) hops_left: u8,
    /// The number of the host that has the destination's address, looked up once.
    pub(super) bound_for: u32,
}

impl Packet {
    /// A packet that was not sent yet.
    pub fn new(protocol: Protocol, source: SocketAddr, destination: SocketAddr, ecn: Ecn, payload: Vec<u8>) -> Self {
        Self { id: 0, source, destination, protocol, ecn, payload, hops_left: 0, bound_for: 0 }
    }

    /// Its length on a link in bytes: that of the IP packet.
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
