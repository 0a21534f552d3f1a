//! What an endpoint can be told beforehand: its bounds.

use timeous_core::Duration;

use crate::connection::Config;

/// The settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Those of its connections.
    pub connection: Config,
    /// The Differentiated Services code point of its packets, which makes a macroflow of its own.
    pub dscp: u8,
    /// The most connections at a time, those in TIME-WAIT not counted; beyond, a SYN is not answered.
    pub max_connections: usize,
    /// The most connections at a time that a peer has asked for and not completed.
    pub max_half_open: usize,
    /// When all half-open places are taken, one that is as old as this is given to a newcomer: a peer on any path has
    /// had the time to answer, and a flood of forged SYNs cannot shut the door for long.
    pub half_open_patience: Duration,
    /// The most resets in a second to segments that belong to no connection.
    pub resets_per_second: u32,
    /// The most connections in TIME-WAIT; beyond, the oldest is forgotten.
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
