//! TCP streams: the endpoint with its connections, fed from sockets' buffers or from packet rings.

mod calls;
mod feed;
mod sent_records;
mod session;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous_cm::{FlowId, Manager};
use timeous_core::{AduSource, Instant, NoAdus, Rng};
use timeous_net::sim::{Packet, Protocol};
use timeous_stream::in_order;
use timeous_tcp::{
    Config, Connection, ConnectionId, Endpoint, EndpointConfig, Event, Outgoing, Segment, Sending, Sources,
};

use crate::agent::Agent;
use calls::{Call, Calls};
pub use calls::{Dialer, Ended};
pub use feed::Feed;
pub use session::{TcpSession, TcpStatus};

/// Creates the feed of an incoming connection.
pub type NewFeed = Box<dyn FnMut() -> Feed + Send>;

/// A TCP endpoint, with a feed and an application for each of its connections.
pub struct Tcp {
    local: SocketAddr,
    endpoint: Endpoint,
    sessions: Sessions,
    calls: Calls,
    accept: Option<NewFeed>,
    /// Whether sessions are kept after their end.
    keeps: bool,
    /// Maximum size of an ADU in bytes.
    max_adu: usize,
    sends_records: bool,
    /// Whether records are plain, sent and received ones.
    is_plain: bool,
    /// Whether peers send records, which are read in order.
    expects_records: bool,
    packet: Vec<u8>,
    received: Vec<u8>,
}

#[derive(Default)]
struct Sessions {
    by_connection: BTreeMap<ConnectionId, TcpSession>,
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

impl Tcp {
    fn new(connection: Config, rng: Rng) -> Self {
        let is_plain = connection.plain_records;
        let sends_records = connection.sending != Sending::Stream;
        // Space for timestamps is reserved, since the peer may agree to them.
        let reserved = if sends_records { 12 } else { 0 };
        let max_adu = connection.max_payload(usize::from(connection.mss) - reserved);
        let config = EndpointConfig { connection, ..EndpointConfig::default() };
        Self {
            local: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            endpoint: Endpoint::new(config, rng),
            sessions: Sessions::default(),
            calls: Calls::default(),
            accept: None,
            keeps: true,
            max_adu,
            sends_records,
            is_plain,
            expects_records: false,
            packet: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Creates an agent that connects to `remote` at `start`.
    pub fn caller(remote: SocketAddr, start: Instant, feed: impl Into<Feed>, config: Config, rng: Rng) -> Self {
        Self { calls: Calls::once(remote, start, feed.into()), ..Self::new(config, rng) }
    }

    /// Creates an agent that connects to `remote` when `dialer` asks for it. Only the dialer is told of the calls'
    /// results.
    pub fn dialer(remote: SocketAddr, dialer: impl Dialer, config: Config, rng: Rng) -> Self {
        Self { calls: Calls::by(remote, Box::new(dialer)), keeps: false, ..Self::new(config, rng) }
    }

    /// Creates an agent that listens at its port; `accept` returns the feed of each connection.
    pub fn listener(accept: impl FnMut() -> Feed + Send + 'static, config: Config, rng: Rng) -> Self {
        Self { accept: Some(Box::new(accept)), ..Self::new(config, rng) }
    }

    /// Makes the agent forget sessions that have ended.
    #[must_use]
    pub fn forgetting(mut self) -> Self {
        self.keeps = false;
        self
    }

    /// Makes the agent read records in order from the peers' streams, as a library above a plain socket does.
    #[must_use]
    pub fn expecting_records(mut self) -> Self {
        self.expects_records = true;
        self
    }

    /// Iterates over the sessions, including ended ones unless they are forgotten.
    pub fn sessions(&self) -> impl Iterator<Item = &TcpSession> {
        self.sessions.by_connection.values()
    }

    /// Returns the first session.
    pub fn session(&self) -> Option<&TcpSession> {
        self.sessions().next()
    }

    /// Returns the dialer; `None` if there is none, or it has another type.
    pub fn dialer_of<D: Dialer>(&self) -> Option<&D> {
        self.calls.dialer()?.downcast_ref()
    }

    /// Returns the endpoint for inspection.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Aborts every connection.
    pub fn abort(&mut self, now: Instant) {
        let ids: Vec<_> = self.sessions.by_connection.keys().copied().collect();
        for id in ids {
            // An error means that the connection has ended already.
            let _ended = self.endpoint.abort(now, id);
        }
    }

    fn begin_calls(&mut self, now: Instant) {
        while let Some(Call { remote, number, feed }) = self.calls.next(now) {
            match self.endpoint.connect(now, self.local.ip(), remote) {
                Ok(id) => self.add(id, feed, Some(number)),
                Err(_no_room) => self.calls.ended(now, number, Ended { complete: false }),
            }
        }
    }

    fn add(&mut self, id: ConnectionId, feed: Feed, call: Option<u64>) {
        let secrets = self.endpoint.connection(id).and_then(Connection::secrets);
        let mut session = TcpSession::new(feed, self.max_adu, call, (secrets, self.is_plain));
        if self.expects_records {
            session.expect_records();
        }
        self.sessions.by_connection.insert(id, session);
    }

    fn transmit(&mut self, now: Instant, cm: &mut Manager) -> Option<Packet> {
        self.packet.clear();
        let polled = in_order(self.endpoint.poll_transmit(now, cm, &mut self.sessions, &mut self.packet));
        let Outgoing { from, to, connection, transmit } = polled?;
        let session = connection.and_then(|id| self.sessions.by_connection.get_mut(&id));
        if let Some(session) = session {
            if let Some(adu) = &transmit.adu {
                session.side.pulled(adu);
            }
            match Segment::parse_trusted(&self.packet) {
                Ok(segment) if self.sends_records => session.records_left(now, &segment),
                Ok(segment) => session.segment_left(now, &segment),
                Err(_) => {}
            }
        }
        Some(Packet::new(Protocol::Tcp, from, to, transmit.ecn, self.packet.clone()))
    }

    /// Handles the endpoint's events; returns whether there were any.
    fn hear(&mut self, now: Instant, cm: &Manager) -> bool {
        let mut progress = false;
        while let Some((id, event)) = self.endpoint.poll_event() {
            progress = true;
            if let (Event::Incoming { .. }, Some(accept)) = (&event, &mut self.accept) {
                let feed = accept();
                self.add(id, feed, None);
            }
            self.handle_event(now, cm, id, event);
        }
        progress
    }

    fn handle_event(&mut self, now: Instant, cm: &Manager, id: ConnectionId, event: Event) {
        let Some(session) = self.sessions.by_connection.get_mut(&id) else { return };
        if let Some(connection) = self.endpoint.connection(id) {
            session.note(*connection.statistics(), connection.flow().and_then(|flow| cm.query(flow).ok()));
        }
        if let Event::Readable = event {
            self.received.clear();
            if self.endpoint.read(id, &mut self.received) > 0 {
                session.received(now, &self.received);
            }
            while self.endpoint.read_datagram(id, &mut self.received).is_some() {
                session.received_datagram(now, &self.received);
                self.received.clear();
            }
        }
        let peer_finished = matches!(event, Event::PeerFinished);
        let closed = matches!(event, Event::Closed { .. });
        session.handle_event(now, event);
        if peer_finished && session.ends_with_peer() {
            let _ended = self.endpoint.close(now, id);
        }
        if closed {
            if let Some(call) = session.call {
                self.calls.ended(now, call, Ended { complete: session.is_complete() });
            }
            if !self.keeps {
                self.sessions.by_connection.remove(&id);
            }
        }
    }

    /// Runs the applications, and closes connections that they have finished; returns whether anything was done.
    fn look_after_sessions(&mut self, now: Instant) -> bool {
        let mut progress = false;
        for (&id, session) in &mut self.sessions.by_connection {
            if session.run(now) || session.side.stop_polling() {
                self.endpoint.wake(id);
                progress = true;
            }
            if session.side.take_finish() {
                let _ended = self.endpoint.close(now, id);
                progress = true;
            }
        }
        progress
    }
}

impl Agent for Tcp {
    fn protocol(&self) -> Protocol {
        Protocol::Tcp
    }

    fn settle(&mut self, local: SocketAddr) {
        self.local = local;
        if self.accept.is_some() {
            self.endpoint.listen(local.port());
        }
    }

    fn handle_packet(&mut self, now: Instant, cm: &mut Manager, packet: &Packet) {
        let Packet { source, destination, payload, ecn, .. } = packet;
        in_order(self.endpoint.handle_segment(now, cm, source.ip(), destination.ip(), payload, *ecn));
    }

    fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        in_order(self.endpoint.handle_timeout(now, cm));
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
        loop {
            self.begin_calls(now);
            if let Some(packet) = self.transmit(now, cm) {
                return Some(packet);
            }
            if !(self.hear(now, cm) | self.look_after_sessions(now)) {
                return None;
            }
        }
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let endpoint = in_order(self.endpoint.poll_timeout());
        let sessions = self.sessions.by_connection.values_mut().filter_map(TcpSession::poll_timeout);
        sessions.chain(endpoint).chain(self.calls.poll_timeout()).min()
    }
}
