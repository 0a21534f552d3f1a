//! What an endpoint can be told beforehand: its bounds.

use timeous_core::Duration;

use crate::connection::Config;

/// The settings of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// Those of its connections.
    pub connection: Config,
    /// The Differentiated Services code point of the socket's packets, which makes a macroflow of its own.
    pub dscp: u8,
    /// The most connections at a time; beyond, a Request is answered with "Too Busy".
    pub max_connections: usize,
    /// The most connections at a time that a client has asked for and not completed.
    pub max_half_open: usize,
    /// When all half-open places are taken, one that is as old as this is given to a newcomer: a client on any path
    /// has had the time to answer, and a flood of forged Requests cannot shut the door for long.
    pub half_open_patience: Duration,
    /// The most Resets in a second to packets that belong to no connection (RFC 4340 §8.1.3).
    pub resets_per_second: u32,
    /// The most ended connections whose ports are remembered as being in TIMEWAIT.
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
