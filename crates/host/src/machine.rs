//! A machine: an address of the network, its Congestion Managers, and the agents at its ports.

mod schedule;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};

use timeous_cm::Kind;
use timeous_cm::Manager;
use timeous_core::Instant;
use timeous_net::sim::{Host, Packet, Protocol};

use crate::agent::Agent;
use schedule::Schedule;

/// Identifier of a machine's Congestion Manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManagerId(usize);

/// Typed handle of a machine's agent.
pub struct Handle<A> {
    index: usize,
    is: PhantomData<fn() -> A>,
}

impl<A> Clone for Handle<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Handle<A> {}

impl<A> fmt::Debug for Handle<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.index).finish()
    }
}

struct Resident {
    agent: Box<dyn Agent>,
    manager: usize,
}

/// A host of a simulated network.
///
/// For per-connection congestion control, as in a kernel, give each agent a manager of its own. Agents with the same
/// manager share congestion state of a path.
pub struct Machine {
    address: IpAddr,
    managers: Vec<Manager>,
    residents: Vec<Resident>,
    /// Receiving agent by port.
    ports: BTreeMap<(Protocol, u16), usize>,
    /// Sending agent by unassigned port, for agents that choose their ports themselves.
    borrowed: BTreeMap<(Protocol, u16, SocketAddr), usize>,
    schedule: Schedule,
    stray: u64,
    unplugged: bool,
}

impl Machine {
    /// Creates a machine at `address`, without agents.
    pub fn new(address: IpAddr) -> Self {
        Self {
            address,
            managers: Vec::new(),
            residents: Vec::new(),
            ports: BTreeMap::new(),
            borrowed: BTreeMap::new(),
            schedule: Schedule::default(),
            stray: 0,
            unplugged: false,
        }
    }

    /// Returns its address.
    pub fn address(&self) -> IpAddr {
        self.address
    }

    /// Adds a Congestion Manager with controllers of this kind.
    pub fn add_manager(&mut self, controller: Kind) -> ManagerId {
        self.add_manager_of(Manager::new(controller.constructor()))
    }

    /// Adds a Congestion Manager made by the caller.
    pub fn add_manager_of(&mut self, manager: Manager) -> ManagerId {
        self.managers.push(manager);
        ManagerId(self.managers.len() - 1)
    }

    /// Adds an agent at a port, with a manager.
    ///
    /// # Panics
    /// If the port is taken, or the manager is another machine's: an error in the experiment.
    pub fn add<A: Agent>(&mut self, port: u16, manager: ManagerId, mut agent: A) -> Handle<A> {
        assert!(manager.0 < self.managers.len(), "the manager belongs to another machine");
        let index = self.residents.len();
        let before = self.ports.insert((agent.protocol(), port), index);
        assert!(before.is_none(), "port {port} of {} is taken", self.address);
        agent.settle(SocketAddr::new(self.address, port));
        self.residents.push(Resident { agent: Box::new(agent), manager: manager.0 });
        self.schedule.wake(index);
        Handle { index, is: PhantomData }
    }

    /// Returns an agent.
    ///
    /// # Panics
    /// If the handle is another machine's.
    pub fn agent<A: Agent>(&self, handle: Handle<A>) -> &A {
        let agent: &dyn Any = &*self.residents[handle.index].agent;
        agent.downcast_ref().expect("a handle is used with the machine that gave it")
    }

    /// Returns an agent, mutably. It will be polled for packets.
    ///
    /// # Panics
    /// If the handle is another machine's.
    pub fn agent_mut<A: Agent>(&mut self, handle: Handle<A>) -> &mut A {
        self.schedule.wake(handle.index);
        let agent: &mut dyn Any = &mut *self.residents[handle.index].agent;
        agent.downcast_mut().expect("a handle is used with the machine that gave it")
    }

    /// Returns an agent and its manager, mutably.
    ///
    /// # Panics
    /// If the handle is another machine's.
    pub fn agent_and_manager<A: Agent>(&mut self, handle: Handle<A>) -> (&mut A, &mut Manager) {
        self.schedule.wake(handle.index);
        let Resident { agent, manager } = &mut self.residents[handle.index];
        let agent: &mut dyn Any = &mut **agent;
        let agent = agent.downcast_mut().expect("a handle is used with the machine that gave it");
        (agent, &mut self.managers[*manager])
    }

    /// Returns a Congestion Manager.
    pub fn manager(&self, id: ManagerId) -> &Manager {
        &self.managers[id.0]
    }

    /// Returns a Congestion Manager, mutably, for queries.
    pub fn manager_mut(&mut self, id: ManagerId) -> &mut Manager {
        &mut self.managers[id.0]
    }

    /// Disconnects or reconnects the machine: while disconnected, nothing is received, and sent packets are lost.
    pub fn set_unplugged(&mut self, unplugged: bool) {
        self.unplugged = unplugged;
    }

    /// Returns the number of packets for unused ports.
    pub fn stray(&self) -> u64 {
        self.stray
    }

    /// Forwards a manager's grants to its agents.
    fn pass_on_grants(&mut self, manager: usize) {
        while let Some(flow) = self.managers[manager].poll_granted() {
            let residents = self.residents.iter_mut().enumerate().filter(|(_, resident)| resident.manager == manager);
            for (index, resident) in residents {
                if resident.agent.granted(flow) {
                    self.schedule.wake(index);
                }
            }
        }
        // An agent may itself be a client of the manager, and polls its own events.
        while self.managers[manager].poll_ready().is_some() {
            let residents = self.residents.iter().enumerate().filter(|(_, resident)| resident.manager == manager);
            residents.for_each(|(index, _)| self.schedule.wake(index));
        }
    }

    fn receiver_of(&self, packet: &Packet) -> Option<usize> {
        let port = packet.destination.port();
        let borrowed = self.borrowed.get(&(packet.protocol, port, packet.source));
        borrowed.or_else(|| self.ports.get(&(packet.protocol, port))).copied()
    }

    /// Notes the agent that sends from an unassigned port.
    fn note_sender(&mut self, index: usize, packet: &Packet) {
        let port = packet.source.port();
        if self.ports.get(&(packet.protocol, port)) == Some(&index) {
            return;
        }
        let user = *self.borrowed.entry((packet.protocol, port, packet.destination)).or_insert(index);
        assert_eq!(user, index, "two agents use port {port} towards {}: give them other seeds", packet.destination);
    }
}

impl Host for Machine {
    fn handle_packet(&mut self, now: Instant, packet: Packet) {
        if self.unplugged {
            return;
        }
        let Some(index) = self.receiver_of(&packet) else {
            self.stray += 1;
            return;
        };
        let Resident { agent, manager } = &mut self.residents[index];
        agent.handle_packet(now, &mut self.managers[*manager], &packet);
        self.schedule.wake(index);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.schedule.next_due(now) {
            let Resident { agent, manager } = &mut self.residents[index];
            let manager = *manager;
            self.managers[manager].handle_timeout(now);
            agent.handle_timeout(now, &mut self.managers[manager]);
            self.pass_on_grants(manager);
        }
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        while let Some(index) = self.schedule.first_ready() {
            let manager = self.residents[index].manager;
            self.pass_on_grants(manager);
            let Resident { agent, .. } = &mut self.residents[index];
            let packet = agent.poll_transmit(now, &mut self.managers[manager]);
            if let Some(packet) = packet {
                self.note_sender(index, &packet);
                if self.unplugged {
                    continue;
                }
                return Some(packet);
            }
            let cm = self.managers[manager].poll_timeout();
            let timeout = self.residents[index].agent.poll_timeout().into_iter().chain(cm).min();
            self.schedule.rest(index, timeout);
            self.pass_on_grants(manager);
        }
        None
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.schedule.first_due()
    }
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine")
            .field("address", &self.address)
            .field("agents", &self.residents.len())
            .field("stray", &self.stray)
            .finish_non_exhaustive()
    }
}
