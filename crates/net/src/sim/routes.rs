//! Routing: shortest paths, unless a static route is set.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::topology::{LinkId, NodeId, Topology};

/// Cost of a path: number of links, then propagation delay in nanoseconds.
type Cost = (u32, u64);

const UNREACHABLE: Cost = (u32::MAX, u64::MAX);
const NO_LINK: u32 = u32::MAX;

/// For each node and host, the outgoing link. Paths have the fewest links; among those the least propagation delay;
/// among those the link created first at each node. Hosts do not forward.
#[derive(Debug, Default)]
pub(super) struct Routes {
    /// Outgoing link, indexed by node and host.
    next: Vec<u32>,
    hosts: usize,
    fixed: BTreeMap<(NodeId, u32), LinkId>,
}

impl Routes {
    /// Sets a static route: packets for `host` leave `at` by this link. Takes effect at the next
    /// [`compute`](Self::compute).
    pub(super) fn fix(&mut self, at: NodeId, host: u32, via: LinkId) {
        self.fixed.insert((at, host), via);
    }

    /// Recomputes all paths.
    pub(super) fn compute(&mut self, topology: &Topology) {
        self.hosts = topology.hosts.len();
        self.next.clear();
        self.next.resize(topology.nodes.len() * self.hosts, NO_LINK);
        let into = links_into(topology);
        for (host, node) in topology.hosts.iter().enumerate() {
            let costs = costs_to(topology, &into, *node);
            self.choose(topology, host, &costs);
        }
        for (&(at, host), via) in &self.fixed {
            self.next[at.index() * self.hosts + host as usize] = via.0;
        }
    }

    /// Outgoing link at `at` for packets to `host`; `None` if there is no path.
    pub(super) fn next(&self, at: NodeId, host: u32) -> Option<LinkId> {
        let link = self.next[at.index() * self.hosts + host as usize];
        (link != NO_LINK).then_some(LinkId(link))
    }

    fn choose(&mut self, topology: &Topology, host: usize, costs: &[Cost]) {
        let mut best = vec![UNREACHABLE; topology.nodes.len()];
        for (number, arc) in topology.arcs.iter().enumerate() {
            let beyond = costs[arc.to.index()];
            let passes = arc.to == topology.hosts[host] || topology.nodes[arc.to.index()].is_none();
            if beyond == UNREACHABLE || !passes || arc.from == topology.hosts[host] {
                continue;
            }
            let cost = further(beyond, arc.delay.as_nanos());
            if cost < best[arc.from.index()] {
                best[arc.from.index()] = cost;
                self.next[arc.from.index() * self.hosts + host] = number as u32;
            }
        }
    }
}

fn further(cost: Cost, delay: u64) -> Cost {
    (cost.0 + 1, cost.1.saturating_add(delay).min(u64::MAX - 1))
}

/// Incoming links of each node.
fn links_into(topology: &Topology) -> Vec<Vec<u32>> {
    let mut into = vec![Vec::new(); topology.nodes.len()];
    for (number, arc) in topology.arcs.iter().enumerate() {
        into[arc.to.index()].push(number as u32);
    }
    into
}

/// Costs from each node to `target` (Dijkstra, backwards).
fn costs_to(topology: &Topology, into: &[Vec<u32>], target: NodeId) -> Vec<Cost> {
    let mut costs = vec![UNREACHABLE; topology.nodes.len()];
    costs[target.index()] = (0, 0);
    let mut open = BinaryHeap::from([Reverse(((0, 0), target))]);
    while let Some(Reverse((cost, node))) = open.pop() {
        let ends_here = node != target && topology.nodes[node.index()].is_some();
        if cost > costs[node.index()] || ends_here {
            continue;
        }
        for link in &into[node.index()] {
            let arc = topology.arcs[*link as usize];
            let longer = further(cost, arc.delay.as_nanos());
            if longer < costs[arc.from.index()] {
                costs[arc.from.index()] = longer;
                open.push(Reverse((longer, arc.from)));
            }
        }
    }
    costs
}
