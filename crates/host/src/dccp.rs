//! DCCP agents: the DCCP endpoint over simulated packets, fed from packet rings.

mod session;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous_cm::{FlowId, Manager};
use timeous_core::{AduSource, Instant, Misuse, NoAdus, Rng};
use timeous_dccp::{Config, ConnectionId, Endpoint, EndpointConfig, Event, Outgoing, ResetCode, ServiceCode, Sources};
use timeous_net::sim::{Packet, Protocol};

use crate::agent::Agent;
use crate::ring::Stream;
use crate::side::Side;
pub use session::{Session, Status};

/// Settings of an agent's connections.
#[derive(Clone, Debug)]
pub struct DccpSettings {
    /// The transport's own settings.
    pub connection: Config,
    /// Service code that is offered or requested.
    pub service: ServiceCode,
    /// The DCCP port behind the UDP port.
    pub dccp_port: u16,
    /// Time of the connection attempt.
    pub start: Instant,
}

impl Default for DccpSettings {
    /// Returns RTP's service and port (RFC 5762), connected at once.
    fn default() -> Self {
        Self {
            connection: Config::default(),
            service: ServiceCode::from_bytes(*b"RTPV"),
            dccp_port: 5_004,
            start: Instant::ZERO,
        }
    }
}

/// Factory of streams for incoming connections.
pub type NewStream = Box<dyn FnMut() -> Stream + Send>;

/// A DCCP endpoint at a UDP port, with a ring and an application for each of its connections.
pub struct Dccp {
    local: SocketAddr,
    settings: DccpSettings,
    endpoint: Endpoint,
    sessions: Sessions,
    /// Pending connection attempt.
    call: Option<(SocketAddr, Stream)>,
    accept: Option<NewStream>,
    packet: Vec<u8>,
}

#[derive(Default)]
struct Sessions {
    by_connection: BTreeMap<ConnectionId, Session>,
    nothing: NoAdus,
}

impl Sources for Sessions {
    fn source(&mut self, id: ConnectionId) -> &mut dyn AduSource {
        match self.by_connection.get_mut(&id) {
            Some(session) => session.side.source(),
            None => &mut self.nothing,
        }
    }
}

impl Dccp {
    fn new(settings: DccpSettings, rng: Rng) -> Self {
        let config = EndpointConfig { connection: settings.connection.clone(), ..EndpointConfig::default() };
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            endpoint: Endpoint::new(config, rng),
            settings,
            sessions: Sessions::default(),
            call: None,
            accept: None,
            packet: Vec::new(),
        }
    }

    /// Creates an agent that connects to `remote`.
    pub fn caller(remote: SocketAddr, stream: Stream, mut settings: DccpSettings, rng: Rng) -> Self {
        settings.connection.repeats |= stream.repair.is_some();
        Self { call: Some((remote, stream)), ..Self::new(settings, rng) }
    }

    /// Creates a listening agent; `accept` makes the stream of each connection.
    pub fn listener(accept: impl FnMut() -> Stream + Send + 'static, settings: DccpSettings, rng: Rng) -> Self {
        let mut agent = Self::new(settings, rng);
        agent.endpoint.listen(agent.settings.dccp_port, &[agent.settings.service]);
        agent.accept = Some(Box::new(accept));
        agent
    }

    /// Returns all connections, including ended ones, in the order in which they began.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.sessions.by_connection.values()
    }

    /// Returns the first connection.
    pub fn session(&self) -> Option<&Session> {
        self.sessions().next()
    }

    /// Returns the first connection, mutably.
    pub fn session_mut(&mut self) -> Option<&mut Session> {
        self.sessions.by_connection.values_mut().next()
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Aborts every connection; the peers are told.
    pub fn abort(&mut self, now: Instant) {
        let ids: Vec<_> = self.sessions.by_connection.keys().copied().collect();
        for id in ids {
            // Fails only for an ended connection.
            let _ended = self.endpoint.abort(now, id, ResetCode::Aborted);
        }
    }

    /// Abandons every connection, like a program that ends: queued data is dropped, the peers are told.
    pub fn abandon(&mut self, now: Instant) {
        for (&id, session) in &mut self.sessions.by_connection {
            session.side.close(now);
            let _ended = self.endpoint.close(now, id);
        }
    }

    fn begin_call(&mut self, now: Instant) {
        if now < self.settings.start {
            return;
        }
        if let Some((remote, stream)) = self.call.take() {
            let DccpSettings { service, dccp_port, .. } = self.settings;
            let id = self.endpoint.connect(now, remote, dccp_port, service).expect("an endpoint takes its first call");
            self.add(id, stream);
        }
    }

    fn add(&mut self, id: ConnectionId, stream: Stream) {
        self.sessions.by_connection.insert(id, Session::new(stream, self.settings.connection.max_payload()));
    }

    fn transmit(&mut self, now: Instant, cm: &mut Manager) -> Option<Packet> {
        self.packet.clear();
        let polled = kept(self.endpoint.poll_transmit(now, cm, &mut self.sessions, &mut self.packet));
        let Outgoing { to, connection, transmit, .. } = polled?;
        if let (Some(id), Some(mut adu)) = (connection, transmit.adu)
            && let Some(session) = self.sessions.by_connection.get_mut(&id)
        {
            adu.gather(session.side.source(), &mut self.packet);
            session.side.sent(now, &adu);
        }
        let payload = self.packet.clone();
        Some(Packet::new(Protocol::Udp, self.local, to, transmit.ecn, payload))
    }

    /// Processes the transport's events; returns whether there were any.
    fn hear(&mut self, now: Instant, cm: &Manager) -> bool {
        let mut progress = false;
        while let Some((id, event)) = self.endpoint.poll_event() {
            progress = true;
            if let (Event::Incoming { .. }, Some(accept)) = (&event, &mut self.accept) {
                let stream = accept();
                self.add(id, stream);
            }
            // Lost data may be retransmitted.
            if let Event::Lost { .. } | Event::Overdue { .. } = event {
                self.endpoint.wake(id);
            }
            if let Some(session) = self.sessions.by_connection.get_mut(&id) {
                if let Some(connection) = self.endpoint.connection(id) {
                    session.note(*connection.statistics(), connection.flow().and_then(|flow| cm.query(flow).ok()));
                }
                session.handle_event(now, event);
            }
        }
        progress
    }

    /// Runs the applications, closes connections with nothing left to send, and requests notifications from empty
    /// rings; returns whether there was progress.
    fn look_after_sessions(&mut self, now: Instant) -> bool {
        let mut progress = false;
        for (&id, session) in &mut self.sessions.by_connection {
            if session.run(now) || session.side.stop_polling() {
                self.endpoint.wake(id);
                progress = true;
            }
            if session.is_finished(now) {
                let _ended = self.endpoint.close(now, id);
                progress = true;
            }
        }
        progress
    }
}

impl Agent for Dccp {
    fn protocol(&self) -> Protocol {
        Protocol::Udp
    }

    fn settle(&mut self, local: SocketAddr) {
        self.local = local;
    }

    fn handle_packet(&mut self, now: Instant, cm: &mut Manager, packet: &Packet) {
        kept(self.endpoint.handle_datagram(now, cm, packet.source, &packet.payload, packet.ecn));
    }

    fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        kept(self.endpoint.handle_timeout(now, cm));
        for (&id, session) in &mut self.sessions.by_connection {
            session.side.pass_expired(now);
            let flow = self.endpoint.connection(id).and_then(|connection| connection.flow());
            let path = flow.and_then(|flow| cm.query(flow).ok());
            session.side.watch(now, &path.unwrap_or_default());
        }
    }

    fn granted(&mut self, flow: FlowId) -> bool {
        self.endpoint.granted(flow)
    }

    fn poll_transmit(&mut self, now: Instant, cm: &mut Manager) -> Option<Packet> {
        self.begin_call(now);
        loop {
            if let Some(packet) = self.transmit(now, cm) {
                return Some(packet);
            }
            if !(self.hear(now, cm) | self.look_after_sessions(now)) {
                return None;
            }
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let call = self.call.as_ref().map(|_| self.settings.start);
        let endpoint = kept(self.endpoint.poll_timeout());
        let sessions = self.sessions.by_connection.values_mut().filter_map(Session::poll_timeout);
        sessions.chain(endpoint).chain(call).min()
    }
}

/// Unwraps the result of a transport call: a machine keeps the driving order.
pub(crate) fn kept<T>(result: Result<T, Misuse>) -> T {
    result.expect("a machine keeps the driving order, and the network's time does not go back")
}
