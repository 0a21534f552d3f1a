//! An endpoint: the TCP connections of one host, told apart by addresses and ports (RFC 9293 §3.3.1).

mod arrivals;
mod config;
mod names;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use timeous_cm::{FlowId, Manager};
use timeous_core::{
    AduSource, DriveOrder, Ecn, IdMap, Instant, Misuse, NoAdus, RateLimit, Rng, Schedule, Transmit, Transport,
};

pub use config::EndpointConfig;
pub use names::ConnectionId;

use crate::connection::{Connection, Event, State, Target};
use crate::receiver::ReceivedDatagram;
use crate::segment::{Addresses, Header, Options, begin, finish};
use names::FlowKey;

/// The send queues of an endpoint's connections.
pub trait Sources {
    /// Returns the source of one connection; called for connected ones only. [`NoAdus`] serves one that never sends.
    fn source(&mut self, connection: ConnectionId) -> &mut dyn AduSource;
}

/// An outgoing segment of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Source address.
    pub from: SocketAddr,
    /// Destination address.
    pub to: SocketAddr,
    /// Its connection; a reset for an unknown connection has none.
    pub connection: Option<ConnectionId>,
    /// How to send it, and the ADU that it carries for the first time.
    pub transmit: Transmit,
}

/// Reason why no connection could be opened. The endpoint is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The limit of connections is reached.
    #[error("{0} connections are open, which is the most: close some, or raise max_connections")]
    TooMany(usize),
    /// Every local port is in use towards this peer.
    #[error("no TCP port is free towards {0}: wait for TIME-WAIT to end")]
    NoPort(SocketAddr),
    /// The driver broke the driving order.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// The command names an unknown connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The connection has ended, or never existed.
    #[error("there is no connection {0:?}: it has ended")]
    Unknown(ConnectionId),
    /// The driver broke the driving order.
    #[error(transparent)]
    Misuse(#[from] Misuse),
}

/// Counters of an endpoint, besides those of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStatistics {
    /// Segments that cannot be parsed, or have a wrong checksum.
    pub malformed: u64,
    /// Segments that belong to no connection and open none.
    pub stray: u64,
    /// SYNs that were refused or dropped.
    pub refused: u64,
    /// Resets sent for segments of no connection.
    pub resets_sent: u64,
    /// Half-open connections evicted for new ones.
    pub evicted: u64,
}

#[derive(Debug)]
struct Slot {
    connection: Box<Connection>,
    key: FlowKey,
    flow: Option<FlowId>,
    /// The application was told that it is connected.
    is_known: bool,
    since: Instant,
}

/// A reset for a segment of no connection.
#[derive(Debug)]
struct Refusal {
    key: FlowKey,
    header: Header,
}

/// The TCP connections of one host, sans-IO: segments and time in, segments and events out.
///
/// The driving order is that of [`Transport`]. A connection is polled only when it has a reason to send, so the driver
/// has to forward the Congestion Manager's wake-ups ([`Manager::poll_granted`], also between two segments) by
/// [`granted`](Self::granted), and the application's by [`wake`](Self::wake).
///
/// ```
/// use timeous_core::{Instant, Rng};
/// use timeous_tcp::{Endpoint, EndpointConfig, State};
/// let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(1));
/// endpoint.listen(80);
/// let id = endpoint.connect(Instant::ZERO, "192.0.2.2".parse()?, "192.0.2.1:80".parse()?)?;
/// assert_eq!(endpoint.connection(id).unwrap().state(), State::SynSent);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    rng: Rng,
    order: DriveOrder,
    slots: IdMap<ConnectionId, Slot>,
    keys: BTreeMap<FlowKey, ConnectionId>,
    flows: IdMap<FlowId, ConnectionId>,
    listeners: BTreeSet<u16>,
    /// Incoming connections with an incomplete handshake, oldest first.
    half_open: BTreeSet<ConnectionId>,
    /// Connections in TIME-WAIT that the application is done with.
    lingering: BTreeSet<ConnectionId>,
    schedule: Schedule<ConnectionId>,
    events: VecDeque<(ConnectionId, Event)>,
    refusals: VecDeque<Refusal>,
    refusal_rate: RateLimit,
    statistics: EndpointStatistics,
    /// Connections whose end was reported; they stay for reading and for their statistics.
    ended: BTreeSet<ConnectionId>,
    /// Candidates for removal among them.
    to_reap: Vec<ConnectionId>,
    next_id: u64,
}

impl Endpoint {
    /// Creates an endpoint. `rng` makes its sequence numbers and ports: on a real network one
    /// [`from_key`](Rng::from_key) with a key from the system, so that blind attackers cannot guess them (RFC 6528).
    pub fn new(config: EndpointConfig, rng: Rng) -> Self {
        Self {
            rng,
            order: DriveOrder::default(),
            slots: IdMap::default(),
            keys: BTreeMap::new(),
            flows: IdMap::default(),
            listeners: BTreeSet::new(),
            half_open: BTreeSet::new(),
            lingering: BTreeSet::new(),
            schedule: Schedule::default(),
            events: VecDeque::new(),
            refusals: VecDeque::new(),
            refusal_rate: RateLimit::per_second(config.resets_per_second),
            statistics: EndpointStatistics::default(),
            ended: BTreeSet::new(),
            to_reap: Vec::new(),
            next_id: 0,
            config,
        }
    }

    /// Accepts connections to `port`, on any address.
    pub fn listen(&mut self, port: u16) {
        self.listeners.insert(port);
    }

    /// Stops accepting connections to `port`; existing ones stay.
    pub fn stop_listening(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Connects to `remote` from an ephemeral port of the address `local`.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no room for another connection.
    pub fn connect(&mut self, now: Instant, local: IpAddr, remote: SocketAddr) -> Result<ConnectionId, ConnectError> {
        self.reap();
        let open = self.slots.len() - self.lingering.len();
        if open >= self.config.max_connections {
            return Err(ConnectError::TooMany(open));
        }
        let local = self.ephemeral(local, remote).ok_or(ConnectError::NoPort(remote))?;
        self.order.fed(now)?;
        let target = Target { local, remote, dscp: self.config.dscp };
        let connection = Connection::connect(now, self.config.connection.clone(), target, &mut self.rng);
        Ok(self.add(now, FlowKey { remote, local }, connection))
    }

    /// Closes the sending direction after the queued data, as [`Connection::close`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn close(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        self.command(now, id, |connection| connection.close(now))
    }

    /// Aborts a connection, as [`Connection::abort`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn abort(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        self.command(now, id, |connection| connection.abort(now))
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

    /// Appends all readable bytes of a connection to `out`, in order, and returns their number. A window update may
    /// become due: drain again.
    pub fn read(&mut self, id: ConnectionId, out: &mut Vec<u8>) -> usize {
        self.read_at_most(id, usize::MAX, out)
    }

    /// As [`read`](Self::read), but at most `limit` bytes.
    pub fn read_at_most(&mut self, id: ConnectionId, limit: usize, out: &mut Vec<u8>) -> usize {
        let Some(slot) = self.slots.get_mut(id) else { return 0 };
        let count = slot.connection.read(limit, out);
        if count > 0 {
            self.schedule.make_ready(id);
            if self.ended.contains(&id) {
                self.to_reap.push(id);
            }
        }
        count
    }

    /// Appends the payload of a connection's next datagram to `out`, as [`Connection::read_datagram`].
    pub fn read_datagram(&mut self, id: ConnectionId, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        let received = self.slots.get_mut(id)?.connection.read_datagram(out)?;
        self.schedule.make_ready(id);
        if self.ended.contains(&id) {
            self.to_reap.push(id);
        }
        Some(received)
    }

    /// Notes that the Congestion Manager has granted `flow` a segment. Returns whether the flow is one of this
    /// endpoint's.
    pub fn granted(&mut self, flow: FlowId) -> bool {
        let id = self.flows.get(flow).copied();
        if let Some(id) = id {
            self.schedule.make_ready(id);
        }
        id.is_some()
    }

    /// Notes that the application has put data into the connection's source.
    pub fn wake(&mut self, id: ConnectionId) {
        if self.slots.contains(id) {
            self.schedule.make_ready(id);
        }
    }

    /// Returns a connection, until its end was reported by [`poll_event`](Self::poll_event), everything was read, and
    /// the next call is made.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        self.slots.get(id).filter(|_| !self.lingering.contains(&id)).map(|slot| &*slot.connection)
    }

    /// Returns the connections, including half-open ones, without those in TIME-WAIT.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.slots.ids().into_iter().filter(|id| !self.lingering.contains(id))
    }

    /// Returns the number of incoming connections with an incomplete handshake.
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Returns the number of ended connections in TIME-WAIT.
    pub fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Returns the endpoint's counters.
    pub fn statistics(&self) -> &EndpointStatistics {
        &self.statistics
    }

    /// Handles expired timers: due at [`poll_timeout`](Self::poll_timeout), harmless earlier.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.reap();
        while let Some(id) = self.schedule.next_due(now) {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.connection.handle_timeout(now, cm)?;
                self.after(id);
            }
        }
        Ok(())
    }

    /// Returns the next segment to send now, appended to the empty `packet`, or `None`. Connections take turns.
    ///
    /// # Errors
    /// [`Misuse`] if the driver broke the order.
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
        let outgoing = match self.refusals.pop_front() {
            Some(refusal) => Some(write_refusal(&refusal, packet)),
            None => self.poll_connections(now, cm, sources, packet)?,
        };
        self.order.polled(now, outgoing.is_some())?;
        Ok(outgoing)
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
            let has_source = slot.is_known && Self::is_open(&slot.connection);
            let source = if has_source { sources.source(id) } else { &mut nothing };
            let transmit = slot.connection.poll_transmit(now, cm, source, packet)?;
            let FlowKey { local: from, remote: to } = slot.key;
            match transmit {
                Some(transmit) => {
                    self.schedule.take_turns();
                    self.settle(id);
                    return Ok(Some(Outgoing { from, to, connection: Some(id), transmit }));
                }
                None => {
                    let timeout = slot.connection.poll_timeout()?;
                    self.schedule.first_is_done();
                    self.schedule.set_timeout(id, timeout);
                    self.settle(id);
                }
            }
        }
        Ok(None)
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due; `None`: not before another call.
    ///
    /// # Errors
    /// [`Misuse::NotDrained`] while segments may wait.
    pub fn poll_timeout(&mut self) -> Result<Option<Instant>, Misuse> {
        self.order.may_sleep()?;
        // Reads and wake-ups since the last drain may have made a segment due at once.
        let at_once = Some(self.order.now()).filter(|_| self.schedule.first_ready().is_some());
        Ok(self.schedule.first_timeout().into_iter().chain(at_once).min())
    }

    /// Returns the next event, or `None`.
    pub fn poll_event(&mut self) -> Option<(ConnectionId, Event)> {
        self.reap();
        let (id, event) = self.events.pop_front()?;
        if matches!(event, Event::Closed { .. }) {
            self.ended.insert(id);
            self.to_reap.push(id);
        }
        Some((id, event))
    }

    fn add(&mut self, now: Instant, key: FlowKey, connection: Connection) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.keys.insert(key, id);
        let connection = Box::new(connection);
        self.slots.insert(id, Slot { connection, key, flow: None, is_known: false, since: now });
        self.schedule.make_ready(id);
        id
    }

    /// Returns an ephemeral port (RFC 6335 §6) that is free towards this peer.
    fn ephemeral(&mut self, local: IpAddr, remote: SocketAddr) -> Option<SocketAddr> {
        const FIRST: u16 = 49_152;
        const COUNT: u16 = u16::MAX - FIRST + 1;
        let start = self.rng.below(u64::from(COUNT)) as u16;
        let candidates = (0..COUNT).map(|step| SocketAddr::new(local, FIRST + (start + step) % COUNT));
        let is_free = |local: &SocketAddr| {
            !self.keys.contains_key(&FlowKey { remote, local: *local }) && !self.listeners.contains(&local.port())
        };
        candidates.into_iter().find(is_free)
    }

    /// Schedules a connection after a change: it may have segments to send, and events to report.
    fn after(&mut self, id: ConnectionId) {
        self.schedule.make_ready(id);
        self.settle(id);
    }

    /// Collects the events of a connection.
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
        let mut is_hidden = !slot.is_known && self.half_open.contains(&id);
        while let Some(event) = slot.connection.poll_event() {
            if event == Event::Connected {
                slot.is_known = true;
                if is_hidden {
                    is_hidden = false;
                    self.half_open.remove(&id);
                    let port = slot.key.local.port();
                    self.events.push_back((id, Event::Incoming { port }));
                }
            }
            // The application does not know of a connection whose handshake was never completed.
            if !is_hidden {
                self.events.push_back((id, event));
            }
        }
        let is_over = !slot.connection.state().is_alive() && slot.connection.is_drained();
        if is_over && is_hidden {
            self.remove(id);
        } else if is_over && self.ended.contains(&id) {
            self.to_reap.push(id);
        } else if self.lingering.contains(&id) && slot.connection.state() == State::Closed {
            self.remove(id);
        }
    }

    /// Removes connections whose end was reported, once everything was sent and read. In TIME-WAIT they stay on their
    /// own.
    fn reap(&mut self) {
        while let Some(id) = self.to_reap.pop() {
            let Some(slot) = self.slots.get(id).filter(|slot| slot.connection.is_drained()) else { continue };
            let lingers = slot.connection.state() == State::TimeWait;
            self.ended.remove(&id);
            if lingers {
                self.lingering.insert(id);
                if self.lingering.len() > self.config.max_lingering
                    && let Some(oldest) = self.lingering.first().copied()
                {
                    self.remove(oldest);
                }
            } else {
                self.remove(id);
            }
        }
    }

    fn remove(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.remove(id) else { return };
        self.keys.remove(&slot.key);
        if let Some(flow) = slot.flow {
            self.flows.remove(flow);
        }
        self.half_open.remove(&id);
        self.lingering.remove(&id);
        self.ended.remove(&id);
        self.schedule.forget(id);
    }
}

fn write_refusal(refusal: &Refusal, packet: &mut Vec<u8>) -> Outgoing {
    let FlowKey { local: from, remote: to } = refusal.key;
    let addresses = Addresses { source: from.ip(), destination: to.ip() };
    let start = begin(&refusal.header, &Options::default(), packet).expect("there are no options");
    finish(packet, start, addresses).expect("the segment was begun");
    Outgoing { from, to, connection: None, transmit: Transmit { ecn: Ecn::NotEct, adu: None } }
}
