//! DCCP agents: the DCCP endpoint over simulated packets, fed from packet rings.

mod sealed;
mod session;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous_cm::{FlowId, Manager};
use timeous_core::{Instant, Rng};
use timeous_dccp::{
    Config, ConnectionId, Endpoint, EndpointConfig, Event, Local, Outgoing, ResetCode, Route, ServiceCode,
};
use timeous_net::sim::{Packet, Protocol};
use timeous_seal::{OVERHEAD, Secret};
use timeous_stream::{Driver, in_order};

use crate::agent::Agent;
use crate::ring::Stream;
use sealed::Sealed;
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
    /// Secret that both ends were given: datagrams are sealed under keys derived from it and the ends' addresses
    /// ([`Secrets::between`](timeous_seal::Secrets::between), whose limit holds here). `None`: packets are plain. The transport's `mps`
    /// counts the sealed datagram.
    pub secret: Option<Secret>,
}

impl Default for DccpSettings {
    /// Returns RTP's service and port (RFC 5762), connected at once.
    fn default() -> Self {
        Self {
            connection: Config::default(),
            service: ServiceCode::from_bytes(*b"RTPV"),
            dccp_port: 5_004,
            start: Instant::ZERO,
            secret: None,
        }
    }
}

/// Factory of streams for incoming connections.
pub type NewStream = Box<dyn FnMut() -> Stream + Send>;

/// A DCCP endpoint at a UDP port, with a ring and an application for each of its connections.
pub struct Dccp {
    local: SocketAddr,
    settings: DccpSettings,
    driver: Driver<Endpoint, Session>,
    sealed: Option<Sealed>,
    /// Pending connection attempt.
    call: Option<(SocketAddr, Stream)>,
    accept: Option<NewStream>,
    packet: Vec<u8>,
}

impl Dccp {
    fn new(mut settings: DccpSettings, rng: Rng) -> Self {
        let sealed = settings.secret.take().map(Sealed::new);
        if sealed.is_some() {
            settings.connection.mps = settings.connection.mps.saturating_sub(OVERHEAD);
        }
        let config = EndpointConfig { connection: settings.connection.clone(), ..EndpointConfig::default() };
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            driver: Driver::new(Endpoint::new(config, rng)),
            settings,
            sealed,
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
        agent.driver.endpoint.listen(agent.settings.dccp_port, &[agent.settings.service]);
        agent.accept = Some(Box::new(accept));
        agent
    }

    /// Returns all connections, including ended ones, in the order in which they began.
    pub fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.driver.sessions.iter().map(|(_, session)| session)
    }

    /// Returns the first connection.
    pub fn session(&self) -> Option<&Session> {
        self.sessions().next()
    }

    /// Returns the first connection, mutably.
    pub fn session_mut(&mut self) -> Option<&mut Session> {
        let id = *self.driver.sessions.ids().first()?;
        self.driver.sessions.get_mut(id)
    }

    /// Returns the endpoint.
    pub fn endpoint(&self) -> &Endpoint {
        &self.driver.endpoint
    }

    /// Aborts every connection; the peers are told.
    pub fn abort(&mut self, now: Instant) {
        let Driver { endpoint, sessions, .. } = &mut self.driver;
        for id in sessions.ids() {
            // Fails only for an ended connection.
            let _ended = endpoint.abort(now, id, ResetCode::Aborted);
        }
    }

    /// Abandons every connection, like a program that ends: queued data is dropped, the peers are told.
    pub fn abandon(&mut self, now: Instant) {
        let Driver { endpoint, sessions, .. } = &mut self.driver;
        for id in sessions.ids() {
            if let Some(session) = sessions.get_mut(id) {
                session.abandon(now);
            }
            let _ended = endpoint.close(now, id);
        }
    }

    fn begin_call(&mut self, now: Instant) {
        if now < self.settings.start {
            return;
        }
        if let Some((remote, stream)) = self.call.take() {
            let DccpSettings { service, dccp_port, .. } = self.settings;
            let route = match &mut self.sealed {
                Some(sealed) => sealed.route(now, self.local, remote),
                None => remote.into(),
            };
            let id =
                self.driver.endpoint.connect(now, route, dccp_port, service).expect("an endpoint takes its first call");
            self.add(id, stream);
        }
    }

    fn add(&mut self, id: ConnectionId, stream: Stream) {
        self.driver.sessions.insert(id, Session::new(stream, self.settings.connection.max_payload()));
    }

    fn transmit(&mut self, now: Instant, cm: &mut Manager) -> Option<Packet> {
        self.packet.clear();
        let polled = self.driver.poll_transmit(now, cm, 1, &mut self.packet);
        let Outgoing { to, from, connection, transmit } = polled?;
        if let (Some(id), Some(adu)) = (connection, transmit.adu)
            && let Some(session) = self.driver.sessions.get_mut(id)
        {
            session.sent(now, adu, &mut self.packet);
        }
        let payload = match (&mut self.sealed, from) {
            (Some(sealed), Local::Sealed(association)) => sealed.seal(association, &self.packet),
            _ => self.packet.clone(),
        };
        Some(Packet::new(Protocol::Udp, self.local, to, transmit.ecn, payload))
    }

    /// Processes the transport's events; returns whether there were any.
    fn hear(&mut self, now: Instant, cm: &Manager) -> bool {
        let mut progress = false;
        while let Some((id, event)) = self.driver.poll_event() {
            progress = true;
            if let (Event::Incoming { .. }, Some(accept)) = (&event, &mut self.accept) {
                let stream = accept();
                self.add(id, stream);
            }
            self.driver.deliver(now, cm, id, event);
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
        let (route, payload) = match &mut self.sealed {
            None => (Route::from(packet.source), &packet.payload[..]),
            Some(sealed) => match sealed.open(now, self.local, packet.source, &packet.payload) {
                Some(opened) => opened,
                None => return,
            },
        };
        in_order(self.driver.endpoint.handle_datagram(now, cm, route, payload, packet.ecn));
    }

    fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        self.driver.handle_timeout(now, cm);
    }

    fn granted(&mut self, flow: FlowId) -> bool {
        self.driver.endpoint.granted(flow)
    }

    fn poll_transmit(&mut self, now: Instant, cm: &mut Manager) -> Option<Packet> {
        self.begin_call(now);
        loop {
            if let Some(packet) = self.transmit(now, cm) {
                return Some(packet);
            }
            let progress = self.hear(now, cm);
            // The results of experiments depend on it: an idle transport asks its source again whenever its agent is polled.
            self.driver.sessions.touch_all();
            if !(progress | self.driver.look_after_sources(now)) {
                self.driver.end_round(now, cm);
                return None;
            }
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let call = self.call.as_ref().map(|_| self.settings.start);
        self.driver.poll_timeout().into_iter().chain(call).min()
    }
}
