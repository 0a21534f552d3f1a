//! A DCCP endpoint: many connections over one socket, demultiplexed by addresses and ports (RFC 6773 §3.8; RFC 4340
//! §5.1).

mod arrivals;
mod candidate;
mod config;
mod lingering;
mod listener;
mod moved;
mod names;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use timeous_cm::{Destination, FlowId, Manager};
use timeous_core::{
    AduSource, DriveOrder, Ecn, IdMap, Instant, Misuse, NoAdus, RateLimit, Rng, Schedule, Transmit, Transport,
};

pub use config::EndpointConfig;
pub use names::{ConnectionId, Route};

use crate::connection::refusal::write_bare;
use crate::connection::{Config, Connection, Event, State, Target};
use crate::packet::Header;
use crate::packet::quoted_request;
use crate::reset::ResetCode;
use crate::service::ServiceCode;
use candidate::Candidate;
use lingering::Lingering;
use listener::Listener;
use names::FlowKey;

/// The send queues of an endpoint's connections.
pub trait Sources {
    /// Send queue of one connection; asked for established connections only. [`NoAdus`] serves for one that never
    /// sends.
    fn source(&mut self, connection: ConnectionId) -> &mut dyn AduSource;
}

/// A packet that an endpoint sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Destination: a UDP address, or an IP address with port zero.
    pub to: SocketAddr,
    /// Source address of a native packet, which its checksum covers; `None` in UDP.
    pub from: Option<IpAddr>,
    /// Association of the layer below that has to encrypt the packet, as in its [`Route`].
    pub association: Option<u32>,
    /// Connection of the packet; `None` for a Reset to a packet of no connection.
    pub connection: Option<ConnectionId>,
    /// ECN mark, and the ADU that the packet carries.
    pub transmit: Transmit,
}

impl Outgoing {
    fn on(route: Route, connection: Option<ConnectionId>, transmit: Transmit) -> Self {
        let (to, from, association) = (route.remote(), route.local(), route.association());
        Self { to, from, association, connection, transmit }
    }
}

/// Reason why no connection could be begun. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The endpoint holds its maximum number of connections.
    #[error("{0} connections are open, which is the most: close some, or raise max_connections")]
    TooMany(usize),
    /// Every local port is in use towards this peer.
    #[error("no DCCP port is free towards {0}: wait for TIMEWAIT to end")]
    NoPort(SocketAddr),
    /// The driver broke the call order.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// Reason why a command to a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// No such connection, or no longer.
    #[error("there is no connection {0:?}: it has ended")]
    Unknown(ConnectionId),
    /// The driver broke the call order.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// Counters of an endpoint, besides those of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStatistics {
    /// Datagrams that are not DCCP packets.
    pub malformed: u64,
    /// Packets that belong to no connection and begin none.
    pub stray: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Resets sent in answer to packets of no connection.
    pub resets_sent: u64,
    /// Half-open connections dropped in favour of newer ones.
    pub evicted: u64,
    /// Connections moved to a new peer address.
    pub moved: u64,
}

#[derive(Debug)]
struct Slot {
    connection: Connection,
    key: FlowKey,
    flow: Option<FlowId>,
    is_connected: bool,
    since: Instant,
    /// Unverified new address of the peer.
    candidate: Option<Candidate>,
}

/// The connections of one UDP or raw IP socket, sans-IO: datagrams and time in, datagrams and events out.
///
/// The driver follows the call order of [`Transport`]. A connection is polled only when it has a reason to send, so the
/// driver must pass on the Congestion Manager's wake-ups ([`Manager::poll_granted`], also between two packets) by
/// [`granted`](Self::granted), and the application's by [`wake`](Self::wake).
///
/// Several connections may share a UDP 4-tuple (second method of RFC 6773 §3.8). The [`Route`] of a packet tells
/// whether it travels in UDP or natively.
///
/// ```
/// use std::net::SocketAddr;
/// use timeous_core::{Instant, Rng};
/// use timeous_dccp::{Endpoint, EndpointConfig, ServiceCode, State};
/// let service = ServiceCode::from_bytes(*b"demo");
/// let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(1));
/// endpoint.listen(7_000, &[service]);
/// let id = endpoint.connect(Instant::ZERO, "192.0.2.1:6511".parse::<SocketAddr>()?, 7_000, service)?;
/// assert_eq!(endpoint.connection(id).unwrap().state(), State::Request);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    rng: Rng,
    order: DriveOrder,
    slots: IdMap<ConnectionId, Box<Slot>>,
    keys: BTreeMap<FlowKey, ConnectionId>,
    /// Connections by the peer's and the local DCCP port, for any address of the peer.
    by_ports: BTreeSet<(u16, u16, ConnectionId)>,
    flows: IdMap<FlowId, ConnectionId>,
    listeners: BTreeMap<u16, Listener>,
    /// Half-open connections (not yet established) of clients, oldest first.
    half_open: BTreeSet<ConnectionId>,
    lingering: Lingering,
    schedule: Schedule<ConnectionId>,
    events: VecDeque<(ConnectionId, Event)>,
    refusals: VecDeque<(Route, Header)>,
    refusal_rate: RateLimit,
    /// Connections with a Sync to send to a new address of the peer.
    probes: VecDeque<ConnectionId>,
    statistics: EndpointStatistics,
    /// Ended connections whose end was reported, kept so that their statistics can be read.
    ended: BTreeSet<ConnectionId>,
    next_id: u64,
}

impl Endpoint {
    /// The UDP port assigned to DCCP (RFC 6773 §3.8).
    pub const UDP_PORT: u16 = 6511;

    /// Creates an endpoint without connections. `rng` makes sequence numbers and ports unguessable: seed it from the
    /// system.
    pub fn new(config: EndpointConfig, rng: Rng) -> Self {
        Self {
            rng,
            order: DriveOrder::default(),
            slots: IdMap::default(),
            keys: BTreeMap::new(),
            by_ports: BTreeSet::new(),
            flows: IdMap::default(),
            listeners: BTreeMap::new(),
            half_open: BTreeSet::new(),
            lingering: Lingering::new(config.max_lingering),
            schedule: Schedule::default(),
            events: VecDeque::new(),
            refusals: VecDeque::new(),
            refusal_rate: RateLimit::per_second(config.resets_per_second),
            probes: VecDeque::new(),
            statistics: EndpointStatistics::default(),
            ended: BTreeSet::new(),
            next_id: 0,
            config,
        }
    }

    /// Accepts connections to the DCCP port `port` for one of `services`. A second call for a port replaces the
    /// services.
    pub fn listen(&mut self, port: u16, services: &[ServiceCode]) {
        self.listen_with(port, services, self.config.connection.clone());
    }

    /// Same as [`listen`](Self::listen), with settings for these connections.
    pub fn listen_with(&mut self, port: u16, services: &[ServiceCode], config: Config) {
        self.listeners.insert(port, Listener { services: services.to_vec(), config, room: None });
    }

    /// Limits the connections still accepted on `port`; `None`: no limit. Requests beyond it are refused with Reset
    /// Code 9, "Too Busy" (RFC 4340 §5.6), and so are handshakes completed beyond it: only a completed handshake takes
    /// a place, so forged Requests take none.
    pub fn set_room(&mut self, port: u16, room: Option<usize>) {
        if let Some(listener) = self.listeners.get_mut(&port) {
            listener.room = room;
        }
    }

    /// Stops accepting connections to `port`; existing ones stay.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Begins a connection to `remote`, a UDP address or a [`Route`], and its DCCP port `remote_port`, from an
    /// ephemeral port.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no room for another connection.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: impl Into<Route>,
        remote_port: u16,
        service: ServiceCode,
    ) -> Result<ConnectionId, ConnectError> {
        self.connect_with(now, remote.into(), remote_port, service, self.config.connection.clone())
    }

    /// Same as [`connect`](Self::connect), with settings for this connection.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no room for another connection.
    pub fn connect_with(
        &mut self,
        now: Instant,
        route: Route,
        remote_port: u16,
        service: ServiceCode,
        config: Config,
    ) -> Result<ConnectionId, ConnectError> {
        self.reap(now);
        if self.slots.len() >= self.config.max_connections {
            return Err(ConnectError::TooMany(self.slots.len()));
        }
        let local_port = self.ephemeral_port(route, remote_port).ok_or(ConnectError::NoPort(route.remote()))?;
        self.order.fed(now)?;
        let target = Target { destination: self.destination(route), local_port, remote_port, service };
        let config = Config { encapsulation: route.encapsulation(config.encapsulation), ..config };
        let connection = Connection::connect(now, config, target, &mut self.rng);
        Ok(self.add(now, FlowKey { route, remote_port, local_port }, connection))
    }

    /// Closes a connection gracefully, as [`Connection::close`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn close(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        self.command(now, id, |connection| connection.close(now))
    }

    /// Ends a connection at once, as [`Connection::abort`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn abort(&mut self, now: Instant, id: ConnectionId, code: ResetCode) -> Result<(), CommandError> {
        self.command(now, id, |connection| connection.abort(now, code))
    }

    fn command(
        &mut self,
        now: Instant,
        id: ConnectionId,
        command: impl FnOnce(&mut Connection) -> Result<(), Misuse>,
    ) -> Result<(), CommandError> {
        let slot = self.slots.get_mut(id).ok_or(CommandError::Unknown(id))?;
        self.order.fed(now)?;
        command(&mut slot.connection)?;
        self.after(id);
        Ok(())
    }

    /// Sets the receive buffer of a connection, as [`Connection::set_receive_room`].
    pub fn set_receive_room(&mut self, id: ConnectionId, room: usize, is_slow: bool) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.connection.set_receive_room(room, is_slow);
        }
    }

    /// Stops delivery on a connection, as [`Connection::stop_receiving`].
    pub fn stop_receiving(&mut self, id: ConnectionId) {
        if let Some(slot) = self.slots.get_mut(id) {
            slot.connection.stop_receiving();
        }
    }

    /// Lowers the maximum packet size towards `remote` to `mps`, as reported by an ICMP message: see
    /// [`Connection::path_mtu_exceeded`]. It applies to all connections there, since the message cannot tell them apart
    /// (RFC 6773 §3.6).
    pub fn path_mtu_exceeded(&mut self, remote: SocketAddr, mps: usize) {
        for id in self.slots.ids() {
            if let Some(slot) = self.slots.get_mut(id).filter(|slot| slot.key.route.remote() == remote) {
                slot.connection.path_mtu_exceeded(mps);
            }
        }
    }

    /// Handles an ICMP message that `remote` has no such UDP port; `quoted` is the DCCP packet that it quotes. A quoted
    /// Request ends with [`CloseReason::Unreachable`](crate::CloseReason::Unreachable); anything else is foreign or
    /// forged, and ignored.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn port_unreachable(&mut self, now: Instant, remote: SocketAddr, quoted: &[u8]) -> Result<(), Misuse> {
        self.order.fed(now)?;
        let Some((local_port, remote_port, seq)) = quoted_request(quoted) else { return Ok(()) };
        if let Some(&id) = self.keys.get(&FlowKey { route: remote.into(), remote_port, local_port })
            && self.slots.get_mut(id).is_some_and(|slot| slot.connection.port_unreachable(seq))
        {
            self.after(id);
        }
        Ok(())
    }

    /// Returns the connection whose Request an ICMP message of `remote` quotes, if there is one.
    #[must_use]
    pub fn caller_quoted(&self, remote: SocketAddr, quoted: &[u8]) -> Option<ConnectionId> {
        let (local_port, remote_port, _) = quoted_request(quoted)?;
        self.keys.get(&FlowKey { route: remote.into(), remote_port, local_port }).copied()
    }

    /// Notes that the Congestion Manager has granted `flow` a packet. Returns whether the flow is one of this
    /// endpoint's.
    pub fn granted(&mut self, flow: FlowId) -> bool {
        let id = self.flows.get(flow).copied();
        if let Some(id) = id {
            self.schedule.make_ready(id);
        }
        id.is_some()
    }

    /// Notes that the application has queued data in the connection's source.
    pub fn wake(&mut self, id: ConnectionId) {
        if self.slots.contains(id) {
            self.schedule.make_ready(id);
        }
    }

    /// The connection; after its end was reported by [`poll_event`](Self::poll_event), until the next call.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.slots.get(id).map(|slot| &slot.connection)
    }

    /// Address of a connection's peer; in UDP with its port.
    pub fn remote(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.slots.get(id).map(|slot| slot.key.route.remote())
    }

    /// Association of the layer below that encrypts a connection's packets, if there is one.
    pub fn association(&self, id: ConnectionId) -> Option<u32> {
        self.slots.get(id).and_then(|slot| slot.key.route.association())
    }

    /// IDs of all connections, half-open ones included.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.slots.ids().into_iter()
    }

    /// Number of half-open connections: requested by a client and not established.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Number of ended connections whose ports are in TIMEWAIT.
    pub fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Counters of the endpoint.
    pub fn statistics(&self) -> &EndpointStatistics {
        &self.statistics
    }

    /// Advances time: to be called at [`poll_timeout`](Self::poll_timeout), harmless earlier.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.reap(now);
        self.lingering.expire(now);
        while let Some(id) = self.schedule.next_due(now) {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.connection.handle_timeout(now, cm)?;
                self.after(id);
            }
        }
        Ok(())
    }

    /// Writes the next packet into the empty `packet`; `None` if there is none. Connections take turns.
    ///
    /// # Errors
    /// [`Misuse`] if the driver broke the call order.
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        sources: &mut dyn Sources,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Outgoing>, Misuse> {
        if !packet.is_empty() {
            return Err(Misuse::BufferNotEmpty { len: packet.len() });
        }
        self.order.advance(now)?;
        let polled = match self.refusals.pop_front() {
            Some((route, header)) => {
                write_bare(&header, route.encapsulation(self.config.connection.encapsulation), packet);
                let transmit = Transmit { ecn: Ecn::NotEct, adu: None };
                Ok(Some(Outgoing::on(route, None, transmit)))
            }
            None => match self.poll_probe(now, packet) {
                Some(probe) => Ok(Some(probe)),
                None => self.poll_connections(now, cm, sources, packet),
            },
        };
        if let Ok(outgoing) = &polled {
            self.order.polled(now, outgoing.is_some())?;
        }
        polled
    }

    fn poll_connections(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        sources: &mut dyn Sources,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Outgoing>, Misuse> {
        while let Some(id) = self.schedule.first_ready() {
            let Some(slot) = self.slots.get_mut(id) else {
                self.schedule.first_is_done();
                continue;
            };
            let mut nothing = NoAdus;
            let source = if slot.is_connected { sources.source(id) } else { &mut nothing };
            let polled = slot.connection.poll_transmit(now, cm, source, packet);
            let route = slot.key.route;
            match &polled {
                Ok(Some(_)) => self.schedule.take_turns(),
                Ok(None) => {
                    let timeout = slot.connection.poll_timeout()?;
                    self.schedule.first_is_done();
                    self.schedule.set_timeout(id, timeout);
                }
                Err(_) => {}
            }
            // A data packet usually changes none of these.
            let is_half_open = !self.half_open.is_empty() && self.half_open.contains(&id);
            if is_half_open || slot.flow != slot.connection.flow() || slot.connection.has_news() {
                self.settle(id);
            }
            if matches!(polled, Ok(None)) {
                continue;
            }
            // `polled` is moved last: moving it right after it is written stalls on those writes.
            return polled.map(|transmit| transmit.map(|transmit| Outgoing::on(route, Some(id), transmit)));
        }
        Ok(None)
    }

    /// Time at which [`handle_timeout`](Self::handle_timeout) is due; `None`: not before something else happens.
    ///
    /// # Errors
    /// [`Misuse::NotDrained`] while packets may wait.
    pub fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse> {
        self.order.may_sleep()?;
        Ok(self.schedule.first_timeout())
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        self.reap(self.order.now());
        let (id, event) = self.events.pop_front()?;
        if matches!(event, Event::Closed { .. }) {
            self.ended.insert(id);
        }
        Some((id, event))
    }

    fn destination(&self, route: Route) -> Destination {
        Destination::from(route.remote().ip()).with_dscp(self.config.dscp)
    }

    fn add(&mut self, now: Instant, key: FlowKey, connection: Connection) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.keys.insert(key, id);
        let slot = Slot { connection, key, flow: None, is_connected: false, since: now, candidate: None };
        self.slots.insert(id, Box::new(slot));
        self.by_ports.insert((key.remote_port, key.local_port, id));
        self.schedule.make_ready(id);
        id
    }

    /// Picks a port from the dynamic range (RFC 4340 §19.9) that is free towards this peer.
    fn ephemeral_port(&mut self, route: Route, remote_port: u16) -> Option<u16> {
        const FIRST: u16 = 49_152;
        const COUNT: u16 = u16::MAX - FIRST + 1;
        let start = self.rng.below(u64::from(COUNT)) as u16;
        (0..COUNT).map(|step| FIRST + (start + step) % COUNT).find(|&local_port| {
            let key = FlowKey { route, remote_port, local_port };
            !self.keys.contains_key(&key) && !self.lingering.contains(&key) && !self.listeners.contains_key(&local_port)
        })
    }

    /// Schedules a connection after a change: it may have packets to send, and events to report.
    fn after(&mut self, id: ConnectionId) {
        self.schedule.make_ready(id);
        self.settle(id);
    }

    /// Collects a connection's events and updates the tables.
    fn settle(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        let flow = slot.connection.flow();
        if flow != slot.flow {
            if let Some(old) = slot.flow.take() {
                self.flows.remove(old);
            }
            if let Some(new) = flow {
                self.flows.insert(new, id);
            }
            slot.flow = flow;
        }
        let is_server = self.half_open.contains(&id);
        while let Some(event) = slot.connection.poll_event() {
            if event == Event::Connected {
                let listener = self.listeners.get_mut(&slot.connection.target().local_port);
                if is_server && let Err(code) = listener.map_or(Err(ResetCode::ConnectionRefused), Listener::take_place)
                {
                    // It stays half-open, and so invisible to the application, until its Reset has left.
                    self.statistics.refused += 1;
                    slot.connection.refuse_completed(code);
                    continue;
                }
                slot.is_connected = true;
                if self.half_open.remove(&id) {
                    let &Target { local_port: port, service, .. } = slot.connection.target();
                    self.events.push_back((id, Event::Incoming { port, service }));
                }
            }
            // The application does not know of a connection that was never established.
            if slot.is_connected || !is_server {
                self.events.push_back((id, event));
            }
        }
        if self.half_open.contains(&id) && slot.connection.is_drained() {
            self.remove(id);
        }
    }

    /// Removes the connections whose end was reported, once they have sent their last packet.
    fn reap(&mut self, now: Instant) {
        if self.ended.is_empty() {
            return;
        }
        let slots = &self.slots;
        let drained = |id: &ConnectionId| slots.get(*id).is_none_or(|slot| slot.connection.is_drained());
        let over: Vec<ConnectionId> = self.ended.iter().copied().filter(drained).collect();
        for id in over {
            self.ended.remove(&id);
            let Some(slot) = self.slots.get(id) else { continue };
            if slot.connection.state() == State::TimeWait {
                self.lingering.insert(slot.key, now + slot.connection.timewait());
            }
            self.remove(id);
        }
    }

    fn remove(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.remove(id) else { return };
        self.keys.remove(&slot.key);
        self.by_ports.remove(&(slot.key.remote_port, slot.key.local_port, id));
        if let Some(flow) = slot.flow {
            self.flows.remove(flow);
        }
        self.half_open.remove(&id);
        self.schedule.forget(id);
    }
}
