//! Settings and limits of an endpoint.

use timeous_core::Duration;

use crate::connection::Config;

/// Settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Default settings of its connections.
    pub connection: Config,
    /// DSCP of the socket's packets; each DSCP has a macroflow of its own.
    pub dscp: u8,
    /// Maximum number of connections; a Request beyond it is answered with "Too Busy".
    pub max_connections: usize,
    /// Maximum number of half-open connections.
    pub max_half_open: usize,
    /// Age from which a half-open connection may be dropped for a new one, when all places are taken: by then a client
    /// on any path has had the time to answer, so a flood of forged Requests blocks others only briefly.
    pub half_open_patience: Duration,
    /// Maximum rate of Resets to packets of no connection, per second (RFC 4340 §8.1.3).
    pub resets_per_second: u32,
    /// Maximum number of ended connections whose ports are kept in TIMEWAIT.
    pub max_lingering: usize,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            connection: Config::default(),
            dscp: 0,
            max_connections: 65_536,
            max_half_open: 1_024,
            half_open_patience: Duration::from_secs(3),
            resets_per_second: 1_024,
            max_lingering: 16_384,
        }
    }
}
