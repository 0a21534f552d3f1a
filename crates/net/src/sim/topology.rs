//! Topology: nodes, addresses and links.

use std::collections::BTreeMap;
use std::net::IpAddr;

use timeous_core::Duration;

/// Identifier of a host or router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(super) u32);

/// Identifier of a one-way link, numbered from zero in the order of creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub(super) u32);

impl NodeId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }
}

impl LinkId {
    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    /// Number of the link.
    pub fn number(self) -> u32 {
        self.0
    }
}

/// A link's properties for routing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arc {
    pub(super) from: NodeId,
    pub(super) to: NodeId,
    pub(super) delay: Duration,
}

/// Nodes and links, without their state.
#[derive(Debug, Default)]
pub(super) struct Topology {
    /// For each node the index of its host; `None` for a router.
    pub(super) nodes: Vec<Option<u32>>,
    pub(super) arcs: Vec<Arc>,
    /// For each host its node.
    pub(super) hosts: Vec<NodeId>,
    addresses: BTreeMap<IpAddr, u32>,
}

impl Topology {
    pub(super) fn add_host(&mut self, address: IpAddr) -> NodeId {
        let host = self.hosts.len() as u32;
        let node = self.add_node(Some(host));
        let taken = self.addresses.insert(address, host);
        assert!(taken.is_none(), "{address} is given to two hosts: each needs an address of its own");
        self.hosts.push(node);
        node
    }

    pub(super) fn add_router(&mut self) -> NodeId {
        self.add_node(None)
    }

    fn add_node(&mut self, host: Option<u32>) -> NodeId {
        self.nodes.push(host);
        NodeId(u32::try_from(self.nodes.len() - 1).expect("fewer than 2^32 nodes"))
    }

    pub(super) fn add_link(&mut self, from: NodeId, to: NodeId, delay: Duration) -> LinkId {
        assert!(self.has(from) && self.has(to), "a link joins nodes of its own network");
        self.arcs.push(Arc { from, to, delay });
        LinkId(u32::try_from(self.arcs.len() - 1).expect("fewer than 2^32 links"))
    }

    /// Index of the host at an address.
    pub(super) fn host_at(&self, address: IpAddr) -> Option<u32> {
        self.addresses.get(&address).copied()
    }

    fn has(&self, node: NodeId) -> bool {
        node.index() < self.nodes.len()
    }
}
