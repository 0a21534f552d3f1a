//! Test networks: two machines, or a dumbbell of several pairs, with a bottleneck between them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use timeous_core::{Duration, Instant, Rate};
use timeous_host::Machine;
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
use timeous_net::sim::{LinkId, Network, NodeId};

pub(crate) const PORT: u16 = 6_511;

pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn left(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 1, n).into()
}

pub(crate) fn right(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 2, n).into()
}

pub(crate) fn remote(n: u8) -> SocketAddr {
    SocketAddr::new(right(n), PORT)
}

/// Returns a bottleneck link: rate in kbit/s, delay in milliseconds, queue in packets.
pub(crate) fn link(kbps: u64, delay: u64, queue: usize) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(kbps)),
        delay: ms(delay),
        queue: Limit::Packets(queue),
        ..LinkConfig::default()
    }
}

pub(crate) fn lossy(config: LinkConfig, p: f64) -> LinkConfig {
    LinkConfig { loss: Loss::Bernoulli { p }, ..config }
}

/// Pairs of machines around one bottleneck: `lefts[n]` and `rights[n]` form a pair.
pub(crate) struct Dumbbell {
    pub(crate) network: Network<Machine>,
    pub(crate) lefts: Vec<NodeId>,
    pub(crate) rights: Vec<NodeId>,
    pub(crate) bottleneck: LinkId,
}

impl Dumbbell {
    pub(crate) fn new(seed: u64, pairs: u8, bottleneck: LinkConfig) -> Self {
        Self::behind(seed, pairs, &LinkConfig::default(), bottleneck)
    }

    /// Builds a dumbbell with such access links between the machines and the bottleneck.
    pub(crate) fn behind(seed: u64, pairs: u8, access: &LinkConfig, bottleneck: LinkConfig) -> Self {
        let mut network = Network::new(seed);
        let (west, east) = (network.add_router(), network.add_router());
        let back = LinkConfig { loss: Loss::None, ..bottleneck.clone() };
        let (bottleneck, _) = network.connect(west, east, bottleneck, back);
        let access = || access.clone();
        let (mut lefts, mut rights) = (Vec::new(), Vec::new());
        for n in 1..=pairs {
            let node = network.add_host(left(n), Machine::new(left(n)));
            network.connect(node, west, access(), access());
            lefts.push(node);
            let node = network.add_host(right(n), Machine::new(right(n)));
            network.connect(node, east, access(), access());
            rights.push(node);
        }
        Self { network, lefts, rights, bottleneck }
    }
}
