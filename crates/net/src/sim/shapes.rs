//! Common network topologies.

use std::net::IpAddr;

use super::host::Host;
use super::network::Network;
use super::topology::{LinkId, NodeId};
use crate::link::LinkConfig;

/// Dumbbell: hosts on both sides of a shared link.
#[derive(Clone, Debug)]
pub struct Dumbbell {
    /// Hosts on the left, in the given order.
    pub left: Vec<NodeId>,
    /// The hosts on the right.
    pub right: Vec<NodeId>,
    /// Routers on the left and on the right.
    pub routers: (NodeId, NodeId),
    /// Shared link from left to right, and the reverse one.
    pub bottleneck: (LinkId, LinkId),
    /// Access links of each host, left hosts first: to the router, and back.
    pub access: Vec<(LinkId, LinkId)>,
}

/// Chain: two hosts with routers in a row between them.
#[derive(Clone, Debug)]
pub struct Chain {
    /// The host at the first end.
    pub first: NodeId,
    /// The host at the last end.
    pub last: NodeId,
    /// The routers, from the first end on.
    pub routers: Vec<NodeId>,
    /// Links away from the first end, each with the reverse one.
    pub links: Vec<(LinkId, LinkId)>,
}

impl<H: Host> Network<H> {
    /// Adds a dumbbell. Each host has an access link like `access` each way; `forward` leads from left to right.
    ///
    /// # Panics
    /// If an address is taken.
    pub fn dumbbell(
        &mut self,
        left: impl IntoIterator<Item = (IpAddr, H)>,
        right: impl IntoIterator<Item = (IpAddr, H)>,
        access: &LinkConfig,
        forward: LinkConfig,
        back: LinkConfig,
    ) -> Dumbbell {
        let routers = (self.add_router(), self.add_router());
        let bottleneck = self.connect(routers.0, routers.1, forward, back);
        let mut links = Vec::new();
        let mut side = |router, hosts: &mut dyn Iterator<Item = (IpAddr, H)>| {
            let place = |(address, host)| {
                let node = self.add_host(address, host);
                links.push(self.connect(node, router, access.clone(), access.clone()));
                node
            };
            hosts.map(place).collect()
        };
        let left = side(routers.0, &mut left.into_iter());
        let right = side(routers.1, &mut right.into_iter());
        Dumbbell { left, right, routers, bottleneck, access: links }
    }

    /// Adds two hosts joined by `links` in a row, each the same both ways, with routers between them.
    ///
    /// # Panics
    /// If an address is taken, or there is no link.
    pub fn chain(&mut self, first: (IpAddr, H), last: (IpAddr, H), links: &[LinkConfig]) -> Chain {
        assert!(!links.is_empty(), "two hosts are joined by at least one link");
        let first = self.add_host(first.0, first.1);
        let last = self.add_host(last.0, last.1);
        let routers: Vec<NodeId> = (1..links.len()).map(|_| self.add_router()).collect();
        let nodes = [&[first], routers.as_slice(), &[last]].concat();
        let pairs = nodes.windows(2).zip(links);
        let links = pairs.map(|(ends, link)| self.connect(ends[0], ends[1], link.clone(), link.clone())).collect();
        Chain { first, last, routers, links }
    }
}
