//! The DCCP ports of an endpoint, with limits of those that listen, and what else only DCCP's endpoint has.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use timeous_cm::FlowId;
use timeous_core::{Duration, Ecn, Instant, Misuse, Transmit};
use timeous_transport::{ConnectionConfig, ConnectionId, Protocol, Table};

use super::candidate::{Candidate, SYNC_LEN};
use super::cookies::Cookies;
use super::lingering::Lingering;
use super::route::{FlowKey, Local, Route};
use crate::connection::refusal::write_bare;
use crate::connection::{CloseReason, Config, Connection, State, Statistics};
use crate::packet::Header;
use crate::reset::ResetCode;
use crate::service::ServiceCode;

/// A packet that an endpoint sends.
pub type Outgoing = timeous_transport::Outgoing<Local>;

/// A listening port.
#[derive(Debug)]
pub(super) struct Listener {
    pub(super) services: Vec<ServiceCode>,
    /// Settings of its connections.
    pub(super) config: Config,
    /// Number of connections still accepted; `None`: no limit.
    pub(super) room: Option<usize>,
}

impl Listener {
    /// Takes a place for an established connection, if there is one.
    fn take_place(&mut self) -> Result<(), ResetCode> {
        let free = self.room != Some(0);
        self.room = self.room.map(|room| room.saturating_sub(1));
        if free { Ok(()) } else { Err(ResetCode::TooBusy) }
    }
}

/// DCCP's own part of an endpoint.
#[derive(Debug)]
pub struct Ports {
    pub(super) listeners: BTreeMap<u16, Listener>,
    pub(super) lingering: Lingering,
    /// Connections with a Sync to send to a new address of the peer.
    pub(super) probes: VecDeque<ConnectionId>,
    /// Made when they are needed first.
    pub(super) cookies: Option<Cookies>,
}

/// Answer to a packet of no connection.
#[derive(Debug)]
pub enum Answer {
    /// A Reset, and its ECN field.
    Reset(Header, Ecn),
    /// A Response that carries the connection's state as a cookie.
    Response(Vec<u8>),
}

impl Ports {
    pub(super) fn new(max_lingering: usize) -> Self {
        let (lingering, probes) = (Lingering::new(max_lingering), VecDeque::new());
        Self { listeners: BTreeMap::new(), lingering, probes, cookies: None }
    }
}

impl timeous_transport::Connection for Connection {
    type CloseReason = CloseReason;
    type Statistics = Statistics;

    fn close(&mut self, now: Instant) -> Result<(), Misuse> {
        Self::close(self, now)
    }

    fn statistics(&self) -> &Statistics {
        Self::statistics(self)
    }

    fn flow(&self) -> Option<FlowId> {
        Self::flow(self)
    }

    fn handshake_rtt(&self) -> Option<Duration> {
        Self::handshake_rtt(self)
    }

    fn has_news(&self) -> bool {
        self.has_news()
    }

    fn is_drained(&self) -> bool {
        Self::is_drained(self)
    }

    fn is_in_time_wait(&self) -> bool {
        self.state() == State::TimeWait
    }

    fn set_receive_room(&mut self, room: usize, is_slow: bool) {
        Self::set_receive_room(self, room, is_slow);
    }
}

impl ConnectionConfig for Config {
    const MAX_CONNECTIONS: usize = 65_536;
    const MAX_HALF_OPEN: usize = 1_024;
}

impl Protocol for Ports {
    type Connection = Connection;
    type Config = Config;
    type Key = FlowKey;
    type Local = Local;
    type Refusal = (Route, Answer);
    /// Unverified new address of the peer.
    type SlotData = Option<Candidate>;

    fn addresses(key: &FlowKey) -> (Local, SocketAddr) {
        (key.route.end(), key.route.remote())
    }

    fn is_reserved(&self, key: &FlowKey) -> bool {
        self.lingering.contains(key) || self.listeners.contains_key(&key.local_port)
    }

    fn accept(&mut self, connection: &mut Connection, key: &FlowKey) -> Option<u16> {
        let listener = self.listeners.get_mut(&key.local_port);
        match listener.map_or(Err(ResetCode::ConnectionRefused), Listener::take_place) {
            Ok(()) => Some(key.local_port),
            Err(code) => {
                connection.refuse_completed(code);
                None
            }
        }
    }

    fn keeps(&mut self, now: Instant, connection: &Connection, key: &FlowKey) -> bool {
        self.lingering.insert(*key, now + connection.timewait());
        false
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.lingering.expire(now);
    }

    fn poll_transmit(&mut self, now: Instant, table: &mut Table<Self>, packet: &mut Vec<u8>) -> Option<Outgoing> {
        let Some((route, answer)) = table.poll_refusal() else {
            return std::iter::from_fn(|| self.probes.pop_front()).find_map(|id| write_probe(now, table, id, packet));
        };
        let ecn = match answer {
            Answer::Reset(header, ecn) => {
                write_bare(&header, route.encapsulation(table.config.connection.encapsulation), packet);
                ecn
            }
            Answer::Response(response) => {
                packet.extend_from_slice(&response);
                Ecn::NotEct
            }
        };
        let transmit = Transmit { ecn, adu: None };
        Some(Outgoing { to: route.remote(), from: route.end(), connection: None, transmit })
    }
}

/// Writes a Sync to a connection's candidate, if one is due.
fn write_probe(now: Instant, table: &mut Table<Ports>, id: ConnectionId, packet: &mut Vec<u8>) -> Option<Outgoing> {
    let own = table.config.connection.encapsulation;
    let slot = table.get_mut(id)?;
    let candidate = slot.data.as_mut().filter(|_| slot.connection.may_move())?;
    let ack = candidate.take_due()?;
    let route = candidate.route();
    let (seq, ecn) = slot.connection.write_probe(now, route.encapsulation(own), ack, packet);
    debug_assert_eq!(packet.len(), SYNC_LEN);
    candidate.sent(seq);
    let transmit = Transmit { ecn, adu: None };
    Some(Outgoing { to: route.remote(), from: route.end(), connection: Some(id), transmit })
}
