//! Settings and counters of an endpoint.

use timeous_core::Duration;

/// Settings of an endpoint.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// Time after which a call without an agreement fails.
    pub patience: Duration,
    /// Calls in progress from which on a caller has to prove its address first. Chosen by us: a higher value saves callers a round
    /// trip and costs more under a flood, about 0.3 ms and 20 kB a call.
    pub calls_without_token: usize,
    /// Most calls a second that are answered, at 0.4 ms of processor time each; callers repeat theirs. Chosen by us: a fifth of a core, so
    /// that calls from many true addresses leave time for the streams.
    pub calls_per_second: u32,
    /// Most of these calls a second for the hosts of one of 256 token buckets: half, so that one host, in IPv6 one /64, leaves the rest
    /// to others. Chosen by us: a lower value delays many callers behind one NAT.
    pub calls_per_group: u32,
    /// Most calls in progress.
    pub max_half_open: usize,
    /// Time that a call in progress has before it gives way to another.
    pub half_open_patience: Duration,
    /// Time without an authenticated packet after which an association that no connection uses is dropped, and after which one
    /// whose peer seems to have forgotten it has failed. Chosen by us: a few retransmissions fit in.
    pub linger: Duration,
    /// Time for which a peer that seems to have lost its keys, or not to encrypt, may show the contrary. Chosen by us: the longest
    /// usual round trip, several times; notices are not authenticated.
    pub doubt: Duration,
    /// Most notices to senders of unknown associations.
    pub notices_per_second: u32,
}

impl Default for EndpointConfig {
    fn default() -> Self {
        Self {
            patience: Duration::from_secs(10),
            calls_without_token: 64,
            calls_per_second: 500,
            calls_per_group: 250,
            max_half_open: 1024,
            half_open_patience: Duration::from_secs(3),
            linger: Duration::from_secs(10),
            doubt: Duration::from_secs(1),
            notices_per_second: 100,
        }
    }
}

/// Counters of an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStatistics {
    /// Calls that ended in an agreement.
    pub agreed: u64,
    /// Calls and associations that failed.
    pub failed: u64,
    /// Sealed datagrams that did not open: forged, damaged or repeated.
    pub rejected: u64,
    /// Sealed datagrams of unknown associations.
    pub unknown: u64,
    /// Callers that were asked to prove their address.
    pub retries: u64,
}
