//! What these tests build their networks from.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use proptest::prelude::*;
use timeous_core::{Duration, Instant, Rate, Rng};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit, Loss};
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

/// A plan of a network in which anything may be joined with anything.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) hosts: usize,
    pub(crate) routers: usize,
    /// From where, to where, and what it is like. Hosts come first.
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
    (capacities, 0u64..40, 0usize..6, losses).prop_map(|(capacity, delay, room, loss)| LinkConfig {
        capacity,
        delay: Duration::from_millis(delay),
        queue: Limit::Packets(room),
        loss,
        ..LinkConfig::default()
    })
}

/// Lets the hosts of a plan send `packets` to each other, and to an address that is nobody's, in the first second.
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
