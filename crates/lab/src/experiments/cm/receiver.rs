//! Receiving end of a client: records arrivals and acknowledges them at once or late.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous::cm::Acks;
use timeous::core::{Duration, Ecn, Instant};
use timeous_cm::{FlowId, Manager};
use timeous_host::Agent;
use timeous_net::sim::{self, Protocol};

use super::packet::Packet;

/// Acknowledgement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckPolicy {
    /// After every other packet or a short delay; at once on gaps.
    Soon,
    /// After this number of packets or this age of the oldest unacknowledged one, and never
    /// earlier.
    Late(u32, Duration),
}

/// Arrival of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Instant,
    pub(crate) packet: Packet,
}

/// Receiver of a client's packets.
pub(crate) struct Receiver {
    local: SocketAddr,
    peer: Option<SocketAddr>,
    when: AckPolicy,
    acks: Acks,
    /// Number of unacknowledged packets, and the arrival time of the first of them.
    untold: u32,
    since: Instant,
    arrivals: Vec<Arrival>,
}

impl Receiver {
    pub(crate) fn new(when: AckPolicy) -> Self {
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            peer: None,
            when,
            acks: Acks::default(),
            untold: 0,
            since: Instant::ZERO,
            arrivals: Vec::new(),
        }
    }

    /// Returns the arrivals so far.
    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals
    }

    fn due(&self) -> Option<Instant> {
        match self.when {
            AckPolicy::Soon => self.acks.poll_timeout(),
            AckPolicy::Late(packets, _) if self.untold >= packets => Some(Instant::ZERO),
            AckPolicy::Late(_, delay) => (self.untold > 0).then(|| self.since + delay),
        }
    }
}

impl Agent for Receiver {
    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn settle(&mut self, local: SocketAddr) {
        self.local = local;
    }

    fn handle_packet(&mut self, now: Instant, _: &mut Manager, datagram: &sim::Packet) {
        let Some((number, packet)) = Packet::decode(&datagram.payload) else { return };
        self.peer = Some(datagram.source);
        if self.untold == 0 {
            self.since = now;
        }
        self.untold += 1;
        if self.acks.received(now, number) {
            self.arrivals.push(Arrival { at: now, packet });
        }
    }

    fn handle_timeout(&mut self, _: Instant, _: &mut Manager) {}

    fn granted(&mut self, _: FlowId) -> bool {
        false
    }

    fn poll_transmit(&mut self, now: Instant, _: &mut Manager) -> Option<sim::Packet> {
        if self.due()? > now {
            return None;
        }
        let ack = self.acks.acknowledge(now)?;
        self.untold = 0;
        Some(sim::Packet::new(Protocol::Udp, self.local, self.peer?, Ecn::NotEct, ack.encode()))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.due()
    }
}
