//! Settings of an endpoint: its limits.

use timeous_core::Duration;

use crate::connection::Config;

/// The settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Settings of its connections.
    pub connection: Config,
    /// DSCP of its packets, which makes a macroflow of its own.
    pub dscp: u8,
    /// Maximum number of connections, without those in TIME-WAIT; beyond it, SYNs are dropped.
    pub max_connections: usize,
    /// Maximum number of half-open incoming connections.
    pub max_half_open: usize,
    /// Age at which a half-open connection may be evicted for a new one when all places are taken: a peer on any path
    /// had time to answer, and a SYN flood cannot block the listener for long.
    pub half_open_patience: Duration,
    /// Maximum number of resets per second for segments of no connection.
    pub resets_per_second: u32,
    /// Maximum number of connections in TIME-WAIT; beyond it, the oldest is removed.
    pub max_lingering: usize,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            connection: Config::default(),
            dscp: 0,
            max_connections: 4_096,
            max_half_open: 256,
            half_open_patience: Duration::from_secs(3),
            resets_per_second: 1_024,
            max_lingering: 16_384,
        }
    }
}
