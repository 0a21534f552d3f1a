//! The ports of an endpoint, and the key of a connection.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use timeous_cm::FlowId;
use timeous_core::{Ecn, Instant, Misuse, Transmit};
use timeous_transport::{ConnectionConfig, Protocol, Table};

use crate::connection::{CloseReason, Config, Connection, State, Statistics};
use crate::segment::{Addresses, Header, Options, begin, finish};

/// Key of a connection at one host: both addresses and ports (RFC 9293 §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FlowKey {
    pub(super) remote: SocketAddr,
    pub(super) local: SocketAddr,
}

/// An outgoing segment of an endpoint.
pub type Outgoing = timeous_transport::Outgoing<SocketAddr>;

/// TCP's own part of an endpoint: its listening ports.
#[derive(Debug, Default)]
pub struct Ports {
    pub(super) listening: BTreeSet<u16>,
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

    fn has_news(&self) -> bool {
        self.has_news()
    }

    fn is_drained(&self) -> bool {
        Self::is_drained(self)
    }

    fn is_in_time_wait(&self) -> bool {
        self.state() == State::TimeWait
    }
}

impl ConnectionConfig for Config {
    const MAX_CONNECTIONS: usize = 4_096;
    const MAX_HALF_OPEN: usize = 256;
}

impl Protocol for Ports {
    type Connection = Connection;
    type Config = Config;
    type Key = FlowKey;
    type Local = SocketAddr;
    /// A reset, and the connection that it is for.
    type Refusal = (FlowKey, Header);
    type SlotData = ();

    fn addresses(key: &FlowKey) -> (SocketAddr, SocketAddr) {
        (key.local, key.remote)
    }

    fn is_reserved(&self, key: &FlowKey) -> bool {
        self.listening.contains(&key.local.port())
    }

    fn accept(&mut self, _: &mut Connection, key: &FlowKey) -> Option<u16> {
        Some(key.local.port())
    }

    fn keeps(&mut self, _: Instant, _: &Connection, _: &FlowKey) -> bool {
        true
    }

    fn poll_transmit(&mut self, _: Instant, table: &mut Table<Self>, packet: &mut Vec<u8>) -> Option<Outgoing> {
        let (FlowKey { local: from, remote: to }, header) = table.poll_refusal()?;
        let addresses = Addresses { source: from.ip(), destination: to.ip() };
        let start = begin(&header, &Options::default(), packet).expect("there are no options");
        finish(packet, start, addresses).expect("the segment was begun");
        Some(Outgoing { from, to, connection: None, transmit: Transmit { ecn: Ecn::NotEct, adu: None } })
    }
}
