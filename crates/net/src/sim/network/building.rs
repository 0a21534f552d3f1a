//! Construction of a network.

use std::net::IpAddr;

use timeous_core::{Duration, Rng};

use super::{Line, Network, Standing, Target};
use crate::link::{Discipline, Link, LinkConfig};
use crate::sim::agenda::AlarmId;
use crate::sim::host::Host;
use crate::sim::packet::Packet;
use crate::sim::topology::{LinkId, NodeId};

impl<H: Host> Network<H> {
    /// Adds a host at `address`. It is first polled when the network runs next.
    ///
    /// # Panics
    /// If another host has that address.
    pub fn add_host(&mut self, address: IpAddr, host: H) -> NodeId {
        self.routes_are_old = true;
        let node = self.topology.add_host(address);
        let alarm = self.add_alarm(Target::Host(self.hosts.len() as u32));
        self.agenda.set(alarm, Some(self.now));
        self.hosts.push(Standing { host, node, alarm });
        node
    }

    /// Adds a router, which forwards packets without delay.
    pub fn add_router(&mut self) -> NodeId {
        self.routes_are_old = true;
        self.topology.add_router()
    }

    /// Adds one link each way between two nodes: from `a` to `b`, and from `b` to `a`.
    ///
    /// # Panics
    /// If a node is not of this network.
    pub fn connect(&mut self, a: NodeId, b: NodeId, forward: LinkConfig, back: LinkConfig) -> (LinkId, LinkId) {
        (self.add_link(a, b, forward), self.add_link(b, a, back))
    }

    /// Adds a one-way link.
    ///
    /// # Panics
    /// If a node is not of this network.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, config: LinkConfig) -> LinkId {
        let delay = config.delay;
        let link = Link::new(config, self.link_rng());
        self.place_link(from, to, delay, link)
    }

    /// Adds a one-way link with another queue discipline; see [`Link::with_discipline`].
    ///
    /// # Panics
    /// If a node is not of this network.
    pub fn add_link_with(
        &mut self,
        from: NodeId,
        to: NodeId,
        config: LinkConfig,
        queue: Box<dyn Discipline<Packet> + Send>,
    ) -> LinkId {
        let delay = config.delay;
        let link = Link::with_discipline(config, queue, self.link_rng());
        self.place_link(from, to, delay, link)
    }

    fn place_link(&mut self, from: NodeId, to: NodeId, delay: Duration, link: Link<Packet>) -> LinkId {
        self.routes_are_old = true;
        let id = self.topology.add_link(from, to, delay);
        let alarm = self.add_alarm(Target::Link(id));
        self.links.push(Line { link, to, alarm });
        if self.recorder.records_journeys() {
            self.links[id.index()].link.keep_drops();
        }
        id
    }

    /// Random generator of the next link.
    fn link_rng(&self) -> Rng {
        let mut of_number = Rng::from_seed(self.links.len() as u64);
        Rng::from_seed(self.seed ^ of_number.next_u64())
    }

    fn add_alarm(&mut self, target: Target) -> AlarmId {
        self.rings_for.push(target);
        self.agenda.add()
    }

    /// Sets a static route: packets for the host `destination` leave the node `at` by this link, regardless of the
    /// shortest path.
    ///
    /// # Panics
    /// If the link does not begin at `at`, or `destination` is no host.
    pub fn set_route(&mut self, at: NodeId, destination: NodeId, via: LinkId) {
        assert_eq!(self.topology.arcs[via.index()].from, at, "a route leaves a node by a link that begins there");
        self.routes.fix(at, self.host_number(destination), via);
        self.routes_are_old = true;
    }
}
