//! An endpoint: the TCP connections of one host, told apart by addresses and ports (RFC 9293 §3.3.1).

mod arrivals;
mod ports;

use std::net::{IpAddr, SocketAddr};
use std::ops::{Deref, DerefMut};

use timeous_core::{Instant, Rng};
use timeous_transport::{CommandError, ConnectError, ConnectionId};

pub use ports::{Outgoing, Ports};

use crate::connection::{Config, Connection, Target};
use crate::receiver::ReceivedDatagram;
use ports::FlowKey;

/// The settings of an endpoint.
pub type EndpointConfig = timeous_transport::EndpointConfig<Config>;

/// The TCP connections of one host, sans-IO: segments and time in, segments and events out. The order of calls is that
/// of [`timeous_transport::Endpoint`].
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
    /// Creates an endpoint. `rng` makes its sequence numbers and ports: on a real network one
    /// [`from_key`](Rng::from_key) with a key from the system, so that blind attackers cannot guess them (RFC 6528).
    pub fn new(config: EndpointConfig, rng: Rng) -> Self {
        Self(timeous_transport::Endpoint::new(config, Ports::default(), rng))
    }

    /// Accepts connections to `port`, on any address.
    pub fn listen(&mut self, port: u16) {
        self.protocol.listening.insert(port);
    }

    /// Stops accepting connections to `port`; existing ones stay.
    pub fn stop_listening(&mut self, port: u16) {
        self.protocol.listening.remove(&port);
    }

    /// Connects to `remote` from an ephemeral port of the address `local`.
    ///
    /// # Errors
    /// [`ConnectError`] if there is no room for another connection.
    pub fn connect(&mut self, now: Instant, local: IpAddr, remote: SocketAddr) -> Result<ConnectionId, ConnectError> {
        let key = |port| FlowKey { remote, local: SocketAddr::new(local, port) };
        self.begin(now, remote, key, |endpoint, FlowKey { local, .. }, rng| {
            let target = Target { local, remote, dscp: endpoint.dscp };
            Connection::connect(now, endpoint.connection.clone(), target, rng)
        })
    }

    /// Aborts a connection, as [`Connection::abort`].
    ///
    /// # Errors
    /// [`CommandError`] if there is no such connection.
    pub fn abort(&mut self, now: Instant, id: ConnectionId) -> Result<(), CommandError> {
        self.command(now, id, |connection| connection.abort(now))
    }

    /// Appends all readable bytes of a connection to `out`, in order, and returns their number. A window update may
    /// become due: drain again.
    pub fn read(&mut self, id: ConnectionId, out: &mut Vec<u8>) -> usize {
        self.read_at_most(id, usize::MAX, out)
    }

    /// As [`read`](Self::read), but at most `limit` bytes.
    pub fn read_at_most(&mut self, id: ConnectionId, limit: usize, out: &mut Vec<u8>) -> usize {
        let count = self.table.get_mut(id).map_or(0, |slot| slot.connection.read(limit, out));
        if count > 0 {
            self.changed(id);
        }
        count
    }

    /// Appends the payload of a connection's next datagram to `out`, as [`Connection::read_datagram`].
    pub fn read_datagram(&mut self, id: ConnectionId, out: &mut Vec<u8>) -> Option<ReceivedDatagram> {
        let received = self.table.get_mut(id)?.connection.read_datagram(out)?;
        self.changed(id);
        Some(received)
    }

    /// Returns the number of ended connections in TIME-WAIT.
    pub fn lingering(&self) -> usize {
        self.table.lingering()
    }
}
