//! A DCCP endpoint: many connections over one socket, demultiplexed by addresses and ports (RFC 6773 §3.8; RFC 4340
//! §5.1).

mod arrivals;
mod candidate;
mod cookies;
mod lingering;
mod moved;
mod ports;
mod route;

use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};

use timeous_cm::Manager;
use timeous_core::{Instant, Misuse, Rng};
use timeous_transport::{CommandError, ConnectError, ConnectionId};

pub use ports::{Outgoing, Ports};
pub use route::{Local, Route};

use crate::connection::{Config, Connection, Target};
use crate::packet::quoted_request;
use crate::reset::ResetCode;
use crate::service::ServiceCode;
use ports::Listener;
use route::FlowKey;

/// Settings of an endpoint.
pub type EndpointConfig = timeous_transport::EndpointConfig<Config>;

/// The connections of one UDP or raw IP socket, sans-IO: datagrams and time in, datagrams and events out.
///
/// Several connections may share a UDP 4-tuple (second method of RFC 6773 §3.8). The [`Route`] of a packet tells
/// whether it travels in UDP or natively. The order of calls is that of [`timeous_transport::Endpoint`].
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
pub struct Endpoint(timeous_transport::Endpoint<Ports>);

impl Deref for Endpoint {
    type Target = timeous_transport::Endpoint<Ports>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Endpoint {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Endpoint {
    /// The UDP port assigned to DCCP (RFC 6773 §3.8).
    pub const UDP_PORT: u16 = 6511;

    /// Creates an endpoint without connections. `rng` makes its sequence numbers and ports: on a real network one
    /// [`from_key`](Rng::from_key) with a key from the system, so that blind attackers cannot guess them (RFC 4340 §7.2).
    pub fn new(config: EndpointConfig, rng: Rng) -> Self {
        let ports = Ports::new(config.max_lingering);
        Self(timeous_transport::Endpoint::new(config, ports, rng))
    }

    /// Accepts connections to the DCCP port `port` for one of `services`. A second call for a port replaces the
    /// services.
    pub fn listen(&mut self, port: u16, services: &[ServiceCode]) {
        self.listen_with(port, services, self.table.config.connection.clone());
    }

    /// Same as [`listen`](Self::listen), with settings for these connections.
    pub fn listen_with(&mut self, port: u16, services: &[ServiceCode], config: Config) {
        self.protocol.listeners.insert(port, Listener { services: services.to_vec(), config, room: None });
    }

    /// Limits the connections still accepted on `port`; `None`: no limit. Requests beyond it are refused with Reset
    /// Code 9, "Too Busy" (RFC 4340 §5.6), and so are handshakes completed beyond it: only a completed handshake takes
    /// a place, so forged Requests take none.
    pub fn set_room(&mut self, port: u16, room: Option<usize>) {
        if let Some(listener) = self.protocol.listeners.get_mut(&port) {
            listener.room = room;
        }
    }

    /// Stops accepting connections to `port`; existing ones stay.
    pub fn stop_listening(&mut self, port: u16) {
        self.protocol.listeners.remove(&port);
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
        self.connect_with(now, remote.into(), remote_port, service, self.table.config.connection.clone())
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
        let key = |local_port| FlowKey { route, remote_port, local_port };
        self.begin(now, route.remote(), key, |endpoint, FlowKey { local_port, .. }, rng| {
            let target =
                Target { destination: endpoint.destination(route.remote().ip()), local_port, remote_port, service };
            let config = Config { encapsulation: route.encapsulation(config.encapsulation), ..config };
            Connection::connect(now, config, target, rng)
        })
    }

    /// Ends a connection at once, as [`Connection::abort`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn abort(&mut self, now: Instant, id: ConnectionId, code: ResetCode) -> Result<(), CommandError> {
        self.command(now, id, |connection| connection.abort(now, code))
    }

    /// Asks the peer of a connection for a sign of life, as [`Connection::probe`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn probe(&mut self, now: Instant, cm: &Manager, id: ConnectionId) -> Result<(), CommandError> {
        self.command(now, id, |connection| {
            connection.probe(now, cm);
            Ok(())
        })
    }

    /// Stops delivery on a connection, as [`Connection::stop_receiving`].
    pub fn stop_receiving(&mut self, id: ConnectionId) {
        if let Some(slot) = self.table.get_mut(id) {
            slot.connection.stop_receiving();
        }
    }

    /// Lowers the maximum packet size towards `remote` to `mps`, as reported by an ICMP message: see
    /// [`Connection::path_mtu_exceeded`]. It applies to all connections there, since the message cannot tell them apart
    /// (RFC 6773 §3.6).
    pub fn path_mtu_exceeded(&mut self, remote: SocketAddr, mps: usize) {
        let ids: Vec<_> = self.connections().collect();
        for id in ids {
            if let Some(slot) = self.table.get_mut(id).filter(|slot| slot.key.route.remote() == remote) {
                slot.connection.path_mtu_exceeded(mps);
            }
        }
    }

    /// Notes that this host refused a packet of a connection as too large, as [`Connection::was_too_large`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn was_too_large(&mut self, now: Instant, id: ConnectionId, len: usize) -> Result<(), CommandError> {
        self.command(now, id, |connection| {
            connection.was_too_large(now, len);
            Ok(())
        })
    }

    /// Handles an ICMP message that `remote` has no such UDP port; `quoted` is the DCCP packet that it quotes. A quoted
    /// Request ends with [`CloseReason::Unreachable`](crate::CloseReason::Unreachable); anything else is foreign or
    /// forged, and ignored.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn port_unreachable(&mut self, now: Instant, remote: SocketAddr, quoted: &[u8]) -> Result<(), Misuse> {
        self.fed(now)?;
        let Some((_, _, seq)) = quoted_request(quoted) else { return Ok(()) };
        match self.caller_quoted(remote, quoted) {
            Some(id) => self.update(id, |connection| {
                connection.port_unreachable(seq);
                Ok(())
            }),
            None => Ok(()),
        }
    }

    /// Returns the connection whose Request an ICMP message of `remote` quotes, if there is one.
    #[must_use]
    pub fn caller_quoted(&self, remote: SocketAddr, quoted: &[u8]) -> Option<ConnectionId> {
        let (local_port, remote_port, _) = quoted_request(quoted)?;
        self.table.find(&FlowKey { route: remote.into(), remote_port, local_port })
    }

    /// Address of a connection's peer; in UDP with its port.
    pub fn remote(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.table.get(id).map(|slot| slot.key.route.remote())
    }

    /// Path of a connection's packets.
    pub fn route(&self, id: ConnectionId) -> Option<Route> {
        self.table.get(id).map(|slot| slot.key.route)
    }

    /// Number of ended connections whose ports are in TIMEWAIT.
    pub fn lingering(&self) -> usize {
        self.protocol.lingering.len()
    }
}
