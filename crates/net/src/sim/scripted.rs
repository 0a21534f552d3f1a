//! A host that sends scheduled packets and records arrivals: for tests, and experiments without a protocol.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous_core::{Ecn, Instant};

use super::host::Host;
use super::packet::{Packet, Protocol};

/// A packet that has arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time.
    pub at: Instant,
    /// The packet.
    pub packet: Packet,
}

/// A host with a script of packets.
#[derive(Clone, Debug)]
pub struct Scripted {
    address: SocketAddr,
    script: BTreeMap<(Instant, u64), Packet>,
    lines: u64,
    arrivals: Vec<Arrival>,
}

impl Scripted {
    /// Creates a host that sends UDP from `address`.
    pub fn new(address: SocketAddr) -> Self {
        Self { address, script: BTreeMap::new(), lines: 0, arrivals: Vec::new() }
    }

    /// Schedules a UDP payload. Packets scheduled for one time leave in the order of scheduling.
    pub fn send_at(&mut self, at: Instant, to: SocketAddr, payload: Vec<u8>) {
        self.send_packet_at(at, Packet::new(Protocol::Udp, self.address, to, Ecn::Ect0, payload));
    }

    /// Schedules any packet.
    pub fn send_packet_at(&mut self, at: Instant, packet: Packet) {
        self.script.insert((at, self.lines), packet);
        self.lines += 1;
    }

    /// Packets that have arrived so far.
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
