//! One end of one TCP connection, alone on its host with a Congestion Manager of its own, as a kernel has it.

use std::net::SocketAddr;

use timeous::core::{AduMeta, AduSource, DropReason, Instant, NoAdus, PathState, PulledAdu, Rng, Transport};
use timeous_cm::controller::Kind;
use timeous_cm::{Answered, Manager};
use timeous_net::sim::{Host, Packet, Protocol};
use timeous_tcp::{Config, Connection, Statistics, Target};

/// The driver keeps the order that transports ask for.
const ORDER: &str = "the end is driven in order";

/// A host with one connection that sends without end, or takes what comes.
pub(crate) struct End {
    connection: Option<Connection>,
    begin: Option<Begin>,
    manager: Manager,
    sends: bool,
    endless: Endless,
    /// Emptied again and again.
    scratch: Vec<u8>,
    /// Bytes that could be read so far.
    received: u64,
}

/// A connection that is not begun yet.
struct Begin {
    at: Instant,
    config: Config,
    target: Target,
    rng: Rng,
}

impl End {
    /// The end that calls at `at`, and sends without end.
    pub(crate) fn sender(
        at: Instant,
        controller: Kind,
        config: Config,
        local: SocketAddr,
        remote: SocketAddr,
        rng: Rng,
    ) -> Self {
        let begin = Begin { at, config, target: Target { local, remote, dscp: 0 }, rng };
        Self::new(Manager::new(controller.constructor()), None, Some(begin))
    }

    /// The end that is called, and reads at once what comes.
    pub(crate) fn receiver(config: Config, local: SocketAddr, remote: SocketAddr, mut rng: Rng) -> Self {
        let target = Target { local, remote, dscp: 0 };
        let connection = Connection::listen(Instant::ZERO, config, target, &mut rng);
        Self::new(Manager::new(Kind::NewReno.constructor()), Some(connection), None)
    }

    fn new(manager: Manager, connection: Option<Connection>, begin: Option<Begin>) -> Self {
        let sends = begin.is_some();
        Self { connection, begin, manager, sends, endless: Endless(0), scratch: Vec::new(), received: 0 }
    }

    /// Bytes that arrived, in order.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// What the connection has counted.
    pub(crate) fn statistics(&self) -> Statistics {
        self.connection.as_ref().map(|connection| *connection.statistics()).unwrap_or_default()
    }

    /// The congestion that was answered.
    pub(crate) fn answered(&self) -> Answered {
        self.flow().and_then(|flow| self.manager.answered(flow).ok()).unwrap_or_default()
    }

    /// What is known of the path.
    pub(crate) fn path(&self) -> PathState {
        self.flow().and_then(|flow| self.manager.query(flow).ok()).unwrap_or_default()
    }

    fn flow(&self) -> Option<timeous_cm::FlowId> {
        self.connection.as_ref().and_then(Connection::flow)
    }

    fn hear(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        while connection.poll_event().is_some() {}
        while self.manager.poll_granted().is_some() {}
        self.received += connection.read(usize::MAX, &mut self.scratch) as u64;
        self.scratch.clear();
    }
}

impl Host for End {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        if let Some(connection) = &mut self.connection {
            connection.handle_datagram(now, &mut self.manager, &packet.payload, packet.ecn).expect(ORDER);
            self.hear();
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if let Some(begin) = self.begin.take_if(|begin| begin.at <= now) {
            let Begin { config, target, mut rng, .. } = begin;
            self.connection = Some(Connection::connect(now, config, target, &mut rng));
        }
        self.manager.handle_timeout(now);
        if let Some(connection) = &mut self.connection {
            connection.handle_timeout(now, &mut self.manager).expect(ORDER);
            self.hear();
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

/// Zeros without end; it counts the segments that it has filled.
struct Endless(u64);

impl AduSource for Endless {
    fn has_queued(&mut self, _: Instant) -> bool {
        true
    }

    fn pull(&mut self, _: Instant, _: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        packet.resize(packet.len() + room, 0);
        self.0 += 1;
        Some(PulledAdu { token: self.0, len: room, meta: AduMeta::default(), apart: false })
    }

    fn sent(&mut self, _: u64) {}
    fn acked(&mut self, _: u64) {}
    fn lost(&mut self, _: u64) {}
    fn dropped(&mut self, _: u64, _: DropReason) {}
}
