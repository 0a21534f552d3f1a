//! Machines on a simulated network, and their agents, each under a manager of its own.

use std::net::{IpAddr, Ipv4Addr};

use timeous_cm::Manager;
use timeous_host::{Agent, Handle, Machine};
use timeous_net::LinkConfig;
use timeous_net::sim::{Dumbbell, Network, NodeId};

/// Returns the address of a dumbbell's machine: side 1 is left, 2 right; machines of a side count from 1.
pub(super) fn address(side: u8, number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, side, number).into()
}

/// Simulated network of machines.
pub(super) trait Machines {
    /// Adds a machine.
    fn machine(&mut self, at: IpAddr) -> NodeId;

    /// Adds pairs of machines, see [`address`], on either side of a link; `access` is the link of each.
    fn pairs(&mut self, count: u8, access: &LinkConfig, forward: LinkConfig, back: LinkConfig) -> Dumbbell;

    /// Adds an agent to a machine, under a manager of its own.
    fn place<A: Agent>(&mut self, node: NodeId, port: u16, manager: impl Into<Manager>, agent: A) -> Handle<A>;
}

impl Machines for Network<Machine> {
    fn machine(&mut self, at: IpAddr) -> NodeId {
        self.add_host(at, Machine::new(at))
    }

    fn pairs(&mut self, count: u8, access: &LinkConfig, forward: LinkConfig, back: LinkConfig) -> Dumbbell {
        let side = |side| (1..=count).map(move |number| (address(side, number), Machine::new(address(side, number))));
        self.dumbbell(side(1), side(2), access, forward, back)
    }

    fn place<A: Agent>(&mut self, node: NodeId, port: u16, manager: impl Into<Manager>, agent: A) -> Handle<A> {
        self.with_host(node, |_, machine| {
            let own = machine.add_manager_of(manager.into());
            machine.add(port, own, agent)
        })
    }
}
