//! A host that sends what it is told, and writes down what arrives: for tests, and where no protocol is wanted.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous_core::{Ecn, Instant};

use super::host::Host;
use super::packet::{Packet, Protocol};

/// A packet that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// The packet.
    pub packet: Packet,
}

/// A host of which every packet is arranged beforehand.
#[derive(Clone, Debug)]
pub struct Scripted {
    address: SocketAddr,
    script: BTreeMap<(Instant, u64), Packet>,
    lines: u64,
    arrivals: Vec<Arrival>,
}

impl Scripted {
    /// A host that sends UDP from `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, script: BTreeMap::new(), lines: 0, arrivals: Vec::new() }
    }

    /// Arranges that a UDP payload is sent at a moment. What is arranged first for one moment leaves first.
    pub fn send_at(&mut self, at: Instant, to: SocketAddr, payload: Vec<u8>) {
        self.send_packet_at(at, Packet::new(Protocol::Udp, self.address, to, Ecn::Ect0, payload));
    }

    /// Arranges that any packet is sent at a moment.
    pub fn send_packet_at(&mut self, at: Instant, packet: Packet) {
        self.script.insert((at, self.lines), packet);
        self.lines += 1;
    }

    /// What has arrived so far.
    pub fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }
}

impl Host for Scripted {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        self.arrivals.push(Arrival { at: now, packet });
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let first = self.script.first_entry().filter(|line| line.key().0 <= now)?;
        Some(first.remove())
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.script.first_key_value().map(|((at, _), _)| *at)
    }
}
