//! Test networks and their building blocks.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use timeous_core::{Duration, Instant, Rate, Rng};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, CodelConfig, Distribution, Jitter, Limit, Loss, QueueKind, RedConfig, Reorder};
use timeous_net::sim::{LinkId, Network, NodeId, Scripted};

/// The address of the host of a number.
pub(crate) fn address(number: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::from(0x0a00_0001 + number as u32)), 9)
}

pub(crate) fn add_host(network: &mut Network<Scripted>, number: usize) -> NodeId {
    network.add_host(address(number).ip(), Scripted::new(address(number)))
}

/// A UDP payload that makes a packet of `len` bytes on a link.
pub(crate) fn payload(len: usize) -> Vec<u8> {
    (0..len - 28).map(|place| place as u8).collect()
}

pub(crate) fn millis(count: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(count)
}

pub(crate) fn link(kbps: u64, delay: u64) -> LinkConfig {
    LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(kbps)),
        delay: Duration::from_millis(delay),
        ..LinkConfig::default()
    }
}

/// Plan of a network with arbitrary links.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) hosts: usize,
    pub(crate) routers: usize,
    /// Source, destination and properties of each link. Hosts come first.
    pub(crate) links: Vec<(usize, usize, LinkConfig)>,
}

impl Plan {
    pub(crate) fn build(&self, seed: u64) -> (Network<Scripted>, Vec<NodeId>, Vec<LinkId>) {
        let mut network = Network::new(seed);
        let mut nodes: Vec<NodeId> = (0..self.hosts).map(|number| add_host(&mut network, number)).collect();
        nodes.extend((0..self.routers).map(|_| network.add_router()));
        let join = |(from, to, config): &(usize, usize, LinkConfig)| {
            network.add_link(nodes[*from], nodes[*to], config.clone())
        };
        let links = self.links.iter().map(join).collect();
        (network, nodes, links)
    }
}

pub(crate) fn plans(configs: impl Strategy<Value = LinkConfig> + Clone + 'static) -> impl Strategy<Value = Plan> {
    (2usize..7, 1usize..8).prop_flat_map(move |(hosts, routers)| {
        let nodes = hosts + routers;
        let links = prop::collection::vec((0..nodes, 0..nodes, configs.clone()), 0..4 * nodes);
        links.prop_map(move |links| Plan { hosts, routers, links })
    })
}

/// Links on which much goes wrong.
pub(crate) fn bad_links() -> impl Strategy<Value = LinkConfig> + Clone {
    let capacities =
        prop_oneof![Just(Capacity::Unlimited), (50u64..5_000).prop_map(|kbps| Capacity::Fixed(Rate::from_kbps(kbps))),];
    let losses = prop_oneof![Just(Loss::None), (0.0..0.4f64).prop_map(|p| Loss::Bernoulli { p })];
    let kinds = prop_oneof![
        2 => Just(QueueKind::DropTail),
        1 => any::<bool>().prop_map(|ecn| QueueKind::Red(RedConfig { ecn, ..RedConfig::default() })),
        1 => any::<bool>().prop_map(|ecn| QueueKind::Codel(CodelConfig { ecn, ..CodelConfig::default() })),
    ];
    let queues = ((0usize..30).prop_map(Limit::Packets), kinds);
    (capacities, 0u64..40, queues, losses, prop::option::of(variations())).prop_map(
        |(capacity, delay, (queue, kind), loss, variation)| {
            let delay = Duration::from_millis(delay);
            let plain = LinkConfig { capacity, delay, queue, kind, loss, ..LinkConfig::default() };
            match variation {
                Some((jitter, reorder, duplicate, burst)) => LinkConfig { jitter, reorder, duplicate, burst, ..plain },
                None => plain,
            }
        },
    )
}

fn variations() -> impl Strategy<Value = (Jitter, Reorder, f64, u64)> + Clone {
    let distributions = prop_oneof![Just(Distribution::Uniform), Just(Distribution::Normal), Just(Distribution::Heavy)];
    let jitters = (0u64..30, distributions, any::<bool>()).prop_map(|(spread, distribution, reorders)| Jitter {
        spread: Duration::from_millis(spread),
        distribution,
        reorders,
    });
    let reorders = (0.0..0.5f64, prop::option::of(0u64..20))
        .prop_map(|(share, by)| Reorder { share, by: by.map(Duration::from_millis) });
    (jitters, reorders, 0.0..0.3f64, 0u64..5_000)
}

/// Makes the hosts of a plan send `packets` to each other, and to an unknown address, in the first second.
pub(crate) fn talk(network: &mut Network<Scripted>, plan: &Plan, nodes: &[NodeId], packets: usize, seed: u64) {
    let mut rng = Rng::from_seed(seed);
    for _ in 0..packets {
        let from = rng.below(plan.hosts as u64) as usize;
        let to = rng.below(plan.hosts as u64 + 1) as usize;
        let at = millis(rng.below(1_000));
        let bytes = payload(28 + rng.below(1_400) as usize);
        network.with_host(nodes[from], |_, host| host.send_at(at, address(to), bytes));
    }
}
