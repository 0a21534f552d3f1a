//! The connections of an endpoint, by ID, key and flow, with their schedule and their events; and the protocol's own part beside them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::ops::RangeBounds;

use timeous_cm::FlowId;
use timeous_core::{IdMap, Instant, RateLimit, Rng, Schedule};

use crate::config::{ConnectionConfig, EndpointConfig};
use crate::connection::Connection;
use crate::event::Event;
use crate::packets::{ConnectionId, Outgoing};

/// Maximum number of refusals queued. Chosen by us: it bounds memory under a flood; a higher value refuses more
/// callers.
const MAX_REFUSALS: usize = 256;

/// Counters of an endpoint, besides those of its connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointStatistics {
    /// Packets that cannot be parsed, or have a wrong checksum.
    pub malformed: u64,
    /// Packets that belong to no connection and begin none.
    pub stray: u64,
    /// Connection requests that were refused or dropped.
    pub refused: u64,
    /// Connection requests answered by a cookie, without any state here; DCCP only.
    pub cookies: u64,
    /// Resets sent in answer to packets of no connection.
    pub resets_sent: u64,
    /// Half-open connections dropped in favour of newer ones.
    pub evicted: u64,
    /// Connections moved to a new peer address; DCCP only.
    pub moved: u64,
}

/// A protocol's own part of an endpoint: listening ports, and all that only this protocol has.
pub trait Protocol: Debug + Sized {
    /// A connection.
    type Connection: Connection;
    /// Settings of a connection.
    type Config: ConnectionConfig + Debug;
    /// Addresses and ports that identify a connection.
    type Key: Copy + Ord + Debug;
    /// Local address of an outgoing packet.
    type Local: Copy;
    /// Answer to a packet of no connection.
    type Refusal: Debug;
    /// The protocol's own data of a connection.
    type SlotData: Default + Debug;

    /// Returns the local and the remote address of a connection's packets.
    fn addresses(key: &Self::Key) -> (Self::Local, SocketAddr);

    /// Returns whether the local port of `key` is not free for a new connection: it listens, or is in TIME-WAIT.
    fn is_reserved(&self, key: &Self::Key) -> bool;

    /// Decides on a client whose handshake is complete. Returns the local port; `None` refuses the client, whose connection then has to
    /// end without an application.
    fn accept(&mut self, connection: &mut Self::Connection, key: &Self::Key) -> Option<u16>;

    /// Returns whether a reported connection in TIME-WAIT stays, to answer its peer. Otherwise it is removed, and the protocol reserves its
    /// ports by itself.
    fn keeps(&mut self, now: Instant, connection: &Self::Connection, key: &Self::Key) -> bool;

    /// Handles expired timers of the protocol's own.
    fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
    }

    /// Writes the next packet that no connection sends: a refusal, or a probe of a new address.
    fn poll_transmit(
        &mut self,
        now: Instant,
        table: &mut Table<Self>,
        packet: &mut Vec<u8>,
    ) -> Option<Outgoing<Self::Local>>;
}

/// Life of a connection as its application sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Incoming, before the end of its handshake: the application does not know it.
    HalfOpen,
    /// Begun here, before the end of its handshake.
    Connecting,
    /// Connected, as far as the application was told.
    Connected,
    /// Ended, as far as the application was told; kept so that its statistics and its data can be read.
    Ended,
    /// In TIME-WAIT, and unknown to the application again.
    Lingering,
}

/// A connection in its endpoint.
#[derive(Debug)]
pub struct Slot<P: Protocol> {
    /// The connection.
    pub connection: P::Connection,
    /// Its addresses and ports.
    pub key: P::Key,
    /// The protocol's own data of it.
    pub data: P::SlotData,
    pub(crate) stage: Stage,
    /// Its flow, as the table knows it.
    pub(crate) flow: Option<FlowId>,
    since: Instant,
}

/// The connections of an endpoint.
#[derive(Debug)]
pub struct Table<P: Protocol> {
    /// Settings of the endpoint.
    pub config: EndpointConfig<P::Config>,
    /// Counters of the endpoint.
    pub statistics: EndpointStatistics,
    pub(crate) rng: Rng,
    pub(crate) slots: IdMap<ConnectionId, Box<Slot<P>>>,
    keys: BTreeMap<P::Key, ConnectionId>,
    pub(crate) flows: IdMap<FlowId, ConnectionId>,
    /// Connections at [`Stage::HalfOpen`], oldest first.
    pub(crate) half_open: BTreeSet<ConnectionId>,
    /// Connections at [`Stage::Lingering`], oldest first.
    lingering: BTreeSet<ConnectionId>,
    pub(crate) schedule: Schedule<ConnectionId>,
    pub(crate) events: VecDeque<(ConnectionId, Event<<P::Connection as Connection>::CloseReason>)>,
    refusals: VecDeque<P::Refusal>,
    refusal_rate: RateLimit,
    /// Connections at [`Stage::Ended`] that may have nothing left to do.
    pub(crate) to_reap: Vec<ConnectionId>,
    next_id: u64,
}

impl<P: Protocol> Table<P> {
    pub(crate) fn new(config: EndpointConfig<P::Config>, rng: Rng) -> Self {
        Self {
            statistics: EndpointStatistics::default(),
            rng,
            slots: IdMap::default(),
            keys: BTreeMap::new(),
            flows: IdMap::default(),
            half_open: BTreeSet::new(),
            lingering: BTreeSet::new(),
            schedule: Schedule::default(),
            events: VecDeque::new(),
            refusals: VecDeque::new(),
            refusal_rate: RateLimit::per_second(config.resets_per_second),
            to_reap: Vec::new(),
            next_id: 0,
            config,
        }
    }

    /// Returns a connection.
    pub fn get(&self, id: ConnectionId) -> Option<&Slot<P>> {
        self.slots.get(id).map(|slot| &**slot)
    }

    /// Returns a connection. [`Endpoint::update`](crate::Endpoint::update) is for changes that may cause packets or events.
    pub fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Slot<P>> {
        self.slots.get_mut(id).map(|slot| &mut **slot)
    }

    /// Returns the connection with this key.
    pub fn find(&self, key: &P::Key) -> Option<ConnectionId> {
        self.keys.get(key).copied()
    }

    /// Returns the connections whose keys are in a range, in the order of their keys.
    pub fn range(&self, keys: impl RangeBounds<P::Key>) -> impl Iterator<Item = (&P::Key, ConnectionId)> {
        self.keys.range(keys).map(|(key, &id)| (key, id))
    }

    /// Number of connections, without those in TIME-WAIT.
    pub(crate) fn open_len(&self) -> usize {
        self.slots.len() - self.lingering.len()
    }

    /// Returns the number of connections that stay in TIME-WAIT.
    pub fn lingering(&self) -> usize {
        self.lingering.len()
    }

    /// Returns whether a connection stays in TIME-WAIT.
    pub fn is_lingering(&self, id: ConnectionId) -> bool {
        self.lingering.contains(&id)
    }

    /// Leaves an ended connection in TIME-WAIT on its own; beyond the limit, the oldest is removed.
    pub(crate) fn leave(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        slot.stage = Stage::Lingering;
        self.lingering.insert(id);
        if self.lingering.len() > self.config.max_lingering
            && let Some(oldest) = self.lingering.first().copied()
        {
            self.remove(oldest);
        }
    }

    pub(crate) fn add(&mut self, now: Instant, key: P::Key, connection: P::Connection, stage: Stage) -> ConnectionId {
        let id = ConnectionId(self.next_id);
        self.next_id += 1;
        self.keys.insert(key, id);
        let data = P::SlotData::default();
        self.slots.insert(id, Box::new(Slot { connection, key, data, stage, flow: None, since: now }));
        self.schedule.make_ready(id);
        id
    }

    /// Generator of sequence numbers and ports, and of the protocol's other secrets.
    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    /// Returns whether all places of half-open connections are taken by ones that are too young to be dropped.
    pub fn is_crowded(&self, now: Instant) -> bool {
        self.half_open.len() >= self.config.max_half_open && self.evictable(now).is_none()
    }

    /// Adds an incoming connection, half-open until its handshake is complete. `None`, counted as refused, if there is no room.
    pub fn add_incoming(
        &mut self,
        now: Instant,
        key: P::Key,
        make: impl FnOnce(&EndpointConfig<P::Config>, &mut Rng) -> P::Connection,
    ) -> Option<ConnectionId> {
        if self.is_crowded(now) {
            self.statistics.refused += 1;
            return None;
        }
        if self.half_open.len() >= self.config.max_half_open
            && let Some(oldest) = self.evictable(now)
        {
            self.statistics.evicted += 1;
            self.remove(oldest);
        }
        self.add_validated(now, key, make)
    }

    /// Same as [`add_incoming`](Self::add_incoming), for a peer that has shown that it receives at its address: the limit of half-open
    /// connections does not hold for it.
    pub fn add_validated(
        &mut self,
        now: Instant,
        key: P::Key,
        make: impl FnOnce(&EndpointConfig<P::Config>, &mut Rng) -> P::Connection,
    ) -> Option<ConnectionId> {
        if self.open_len() >= self.config.max_connections {
            self.statistics.refused += 1;
            return None;
        }
        let connection = make(&self.config, &mut self.rng);
        let id = self.add(now, key, connection, Stage::HalfOpen);
        self.half_open.insert(id);
        Some(id)
    }

    /// Returns the oldest half-open connection if it is old enough to be dropped for a new one. It has no flow yet, and its client is refused
    /// if it comes back.
    fn evictable(&self, now: Instant) -> Option<ConnectionId> {
        let oldest = self.half_open.first().copied()?;
        let age = now - self.slots.get(oldest)?.since;
        (age >= self.config.half_open_patience).then_some(oldest)
    }

    /// Gives a connection another key; returns the previous one.
    pub fn set_key(&mut self, id: ConnectionId, key: P::Key) -> Option<P::Key> {
        let from = std::mem::replace(&mut self.slots.get_mut(id)?.key, key);
        self.keys.remove(&from);
        self.keys.insert(key, id);
        Some(from)
    }

    /// Removes a connection, without an event.
    pub fn remove(&mut self, id: ConnectionId) {
        let Some(slot) = self.slots.remove(id) else { return };
        self.keys.remove(&slot.key);
        if let Some(flow) = slot.flow {
            self.flows.remove(flow);
        }
        self.half_open.remove(&id);
        self.lingering.remove(&id);
        self.schedule.forget(id);
    }

    /// Queues an event of the protocol's own.
    pub fn report(&mut self, id: ConnectionId, event: Event<<P::Connection as Connection>::CloseReason>) {
        self.events.push_back((id, event));
    }

    /// Queues the answer to a packet of no connection, within the limits of number and rate.
    pub fn refuse(&mut self, now: Instant, refusal: P::Refusal) {
        if self.refusals.len() < MAX_REFUSALS && self.refusal_rate.take(now) {
            self.statistics.resets_sent += 1;
            self.refusals.push_back(refusal);
        }
    }

    /// Queues an answer to a request that leaves no state here, within the limit of number: it is no larger than a few requests.
    pub fn answer(&mut self, answer: P::Refusal) {
        if self.refusals.len() < MAX_REFUSALS {
            self.refusals.push_back(answer);
        }
    }

    /// Returns the next answer to a packet of no connection.
    pub fn poll_refusal(&mut self) -> Option<P::Refusal> {
        self.refusals.pop_front()
    }
}
