//! One end of one TCP connection, alone on its host with a Congestion Manager of its own, as in a
//! kernel.

use std::net::SocketAddr;

use timeous::core::{AduMeta, AduSource, Copied, DropReason, Instant, NoAdus, PathState, PulledAdu, Rng, Transport};
use timeous_cm::Kind;
use timeous_cm::{Answered, FlowId, Manager};
use timeous_net::sim::{Host, Packet, Protocol};
use timeous_tcp::{Config, Connection, Statistics, Target};

use crate::experiments::fault::{self, Fault};

/// Message for the driver's contract: it calls transports in the required order.
const ORDER: &str = "the end is driven in order";

/// Host with one connection that sends endlessly, or receives.
pub(crate) struct End {
    connection: Option<Connection>,
    begin: Option<PendingConnection>,
    manager: Manager,
    sends: bool,
    endless: EndlessSource,
    /// Read buffer, emptied repeatedly.
    scratch: Vec<u8>,
    received: u64,
    gaps: Option<PeriodicLoss>,
}

/// Deterministic loss at a constant interval of packets.
struct PeriodicLoss {
    every: u64,
    seen: u64,
}

impl PeriodicLoss {
    fn drops_next(&mut self) -> bool {
        self.seen += 1;
        self.seen.is_multiple_of(self.every)
    }
}

/// Connection that is not opened yet.
struct PendingConnection {
    at: Instant,
    config: Config,
    target: Target,
    rng: Rng,
}

impl End {
    /// Creates an end that connects at `at` and then sends endlessly.
    pub(crate) fn sender(
        at: Instant,
        controller: Kind,
        config: Config,
        (local, remote): (SocketAddr, SocketAddr),
        rng: Rng,
    ) -> Self {
        let begin = PendingConnection { at, config, target: Target { local, remote, dscp: 0 }, rng };
        Self::new(controller, None, Some(begin))
    }

    /// Creates a listening end that reads all data at once.
    pub(crate) fn receiver(config: Config, (local, remote): (SocketAddr, SocketAddr), mut rng: Rng) -> Self {
        let target = Target { local, remote, dscp: 0 };
        let connection = Connection::listen(Instant::ZERO, config, target, &mut rng);
        Self::new(Kind::NewReno, Some(connection), None)
    }

    fn new(controller: Kind, connection: Option<Connection>, begin: Option<PendingConnection>) -> Self {
        Self {
            connection,
            sends: begin.is_some(),
            begin,
            manager: controller.into(),
            endless: EndlessSource(0),
            scratch: Vec::new(),
            received: 0,
            gaps: None,
        }
    }

    /// Replaces its controller by a faulty one.
    pub(crate) fn with_fault(mut self, controller: Kind, fault: Option<Fault>) -> Self {
        if fault.is_some() {
            self.manager = fault::manager(controller, fault);
        }
        self
    }

    /// Drops every n-th packet before it arrives here.
    pub(crate) fn losing_every(mut self, packets: u64) -> Self {
        self.gaps = Some(PeriodicLoss { every: packets, seen: 0 });
        self
    }

    /// Returns the bytes that arrived in order.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Returns the connection's statistics.
    pub(crate) fn statistics(&self) -> Statistics {
        self.connection.as_ref().map(|connection| *connection.statistics()).unwrap_or_default()
    }

    /// Returns the congestion events that the manager answered.
    pub(crate) fn answered(&self) -> Answered {
        self.flow().and_then(|flow| self.manager.answered(flow).ok()).unwrap_or_default()
    }

    /// Returns the state of the path.
    pub(crate) fn path(&self) -> PathState {
        self.flow().and_then(|flow| self.manager.query(flow).ok()).unwrap_or_default()
    }

    fn flow(&self) -> Option<FlowId> {
        self.connection.as_ref().and_then(Connection::flow)
    }

    fn process_events(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        while connection.poll_event().is_some() {}
        while self.manager.poll_granted().is_some() {}
        self.received += connection.read(usize::MAX, &mut self.scratch) as u64;
        self.scratch.clear();
    }
}

impl Host for End {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        if self.gaps.as_mut().is_some_and(PeriodicLoss::drops_next) {
            return;
        }
        if let Some(connection) = &mut self.connection {
            connection.handle_datagram(now, &mut self.manager, &packet.payload, packet.ecn).expect(ORDER);
            self.process_events();
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(begin) = self.begin.take_if(|begin| begin.at <= now) {
            let PendingConnection { config, target, mut rng, .. } = begin;
            self.connection = Some(Connection::connect(now, config, target, &mut rng));
        }
        self.manager.handle_timeout(now);
        if let Some(connection) = &mut self.connection {
            connection.handle_timeout(now, &mut self.manager).expect(ORDER);
            self.process_events();
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        let connection = self.connection.as_mut()?;
        let source: &mut dyn AduSource = if self.sends { &mut self.endless } else { &mut NoAdus };
        let mut segment = Vec::new();
        let transmit = connection.poll_transmit(now, &mut self.manager, source, &mut segment).expect(ORDER)?;
        let Target { local, remote, .. } = *connection.target();
        Some(Packet::new(Protocol::Tcp, local, remote, transmit.ecn, segment))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let begin = self.begin.as_ref().map(|begin| begin.at);
        let connection = self.connection.as_mut().and_then(|connection| connection.poll_timeout().expect(ORDER));
        [begin, connection, self.manager.poll_timeout()].into_iter().flatten().min()
    }
}

/// Endless zeros; counts the segments that it has filled.
struct EndlessSource(u64);

impl AduSource for EndlessSource {
    fn has_queued(&mut self, _: Instant) -> bool {
        true
    }

    fn pull(&mut self, _: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        packet.resize(packet.len() + room, 0);
        self.0 += 1;
        Some(PulledAdu {
            token: self.0,
            len: room,
            meta: AduMeta::default(),
            apart: false,
            copy: Copied::First,
            is_fragment: false,
        })
    }

    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, _: u64) {}
    fn lost(&mut self, _: u64) {}
    fn dropped(&mut self, _: u64, _: DropReason) {}
}
