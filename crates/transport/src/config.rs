//! Settings and limits of an endpoint.

use std::net::IpAddr;

use timeous_cm::Destination;
use timeous_core::Duration;

/// Settings of a protocol's connections, and its default limits.
pub trait ConnectionConfig: Default {
    /// Default of [`EndpointConfig::max_connections`].
    const MAX_CONNECTIONS: usize;
    /// Default of [`EndpointConfig::max_half_open`].
    const MAX_HALF_OPEN: usize;
}

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig<C> {
    /// Default settings of its connections.
    pub connection: C,
    /// DSCP of its packets; each DSCP has a macroflow of its own.
    pub dscp: u8,
    /// Source address of its packets, if it is not the route's own: that of a second uplink, which has macroflows of its own.
    pub source: Option<IpAddr>,
    /// Maximum number of connections, without those in TIME-WAIT; beyond it, new ones are refused.
    pub max_connections: usize,
    /// Maximum number of half-open connections.
    pub max_half_open: usize,
    /// Age from which a half-open connection may be dropped for a new one, when all places are taken: by then a client
    /// on any path has had the time to answer, so a flood of forged requests blocks others only briefly.
    pub half_open_patience: Duration,
    /// Maximum rate of resets to packets of no connection, per second (RFC 4340 §8.1.3).
    pub resets_per_second: u32,
    /// Maximum number of ended connections whose ports are kept in TIME-WAIT; beyond it, the oldest is removed.
    pub max_lingering: usize,
}

impl<C> EndpointConfig<C> {
    /// Returns what the flows of a connection to this host share.
    pub fn destination(&self, remote: IpAddr) -> Destination {
        Destination { source: self.source, ..Destination::from(remote).with_dscp(self.dscp) }
    }
}

impl<C: ConnectionConfig> Default for EndpointConfig<C> {
    fn default() -> Self {
        Self {
            connection: C::default(),
            dscp: 0,
            source: None,
            max_connections: C::MAX_CONNECTIONS,
            max_half_open: C::MAX_HALF_OPEN,
            half_open_patience: Duration::from_secs(3),
            resets_per_second: 1_024,
            max_lingering: 16_384,
        }
    }
}
