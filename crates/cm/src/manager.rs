//! The Congestion Manager: flows request to send, get grants, and report what they sent and what arrived.

mod bulk;
mod comparing;
mod feedback;
mod grouping;
pub(crate) mod paths;
mod sending;
mod telling;

use std::collections::BTreeMap;

use timeous_core::{Duration, Instant, PathState};

use crate::controller::{Controller, aimd::Aimd};
use crate::destination::Destination;
use crate::error::CmError;
use crate::flow::ClientId;
use crate::flow::MacroflowId;
use crate::flow::{FlowId, FlowSpec};
use crate::flows::{Flow, Flows};
use crate::kind::Kind;
use crate::ledger::Ledger;
use crate::macroflow::{Answered, Macroflow, MakeController};
use crate::memory::Memory;
use crate::outbox::Outbox;
use crate::scheduler::{MAX_WEIGHT, Scheduling};
use crate::slab::Slab;
use crate::timetable::Timetable;
use crate::trace::Happening;

/// Maximum packet size, in bytes: the Total Length field of IPv4 (RFC 791 §3.1).
const MAX_MTU: u64 = 65_535;

/// Congestion Manager of a host.
///
/// ```
/// use std::net::{IpAddr, Ipv4Addr};
/// use timeous_cm::{Manager, Update};
/// use timeous_core::{Duration, Instant};
///
/// let mut cm = Manager::default();
/// let mut now = Instant::ZERO;
/// let flow = cm.open(IpAddr::V4(Ipv4Addr::LOCALHOST).into(), 1_200);
/// cm.request(now, flow).unwrap();
/// assert_eq!(cm.poll_granted(), Some(flow));
/// cm.notify(now, flow, 1_000).unwrap(); // the late choice was a packet of 1000 bytes
/// now += Duration::from_millis(40);
/// let update = Update { acked: 1_000, rtt: Some(Duration::from_millis(40)), ..Update::default() };
/// cm.update(now, flow, update).unwrap();
/// assert_eq!(cm.query(flow).unwrap().srtt, Some(Duration::from_millis(40)));
/// ```
#[derive(Debug)]
pub struct Manager {
    flows: Flows,
    macroflows: Slab<Macroflow>,
    /// Macroflows that new flows join.
    by_destination: BTreeMap<Destination, u64>,
    /// Next timeout of each macroflow, by its index.
    timetable: Timetable,
    outbox: Outbox,
    memory: Memory,
    make: MakeController,
}

impl Default for Manager {
    fn default() -> Self {
        Self::new(|mtu| Box::new(Aimd::new(mtu)))
    }
}

impl From<Kind> for Manager {
    fn from(kind: Kind) -> Self {
        Self::new(kind.constructor())
    }
}

impl Manager {
    /// Creates a manager whose macroflows get their controllers from `new_controller`, called with the packet size.
    pub fn new(new_controller: fn(u64) -> Box<dyn Controller>) -> Self {
        Self {
            flows: Flows::default(),
            macroflows: Slab::default(),
            by_destination: BTreeMap::new(),
            timetable: Timetable::default(),
            outbox: Outbox::default(),
            memory: Memory::default(),
            make: new_controller,
        }
    }

    /// Adds a client. It opens flows with [`open_for`](Self::open_for) and gets events by
    /// [`poll_client`](Self::poll_client).
    pub fn join(&mut self) -> ClientId {
        self.outbox.clients.join()
    }

    /// Removes a client, which may have died, and closes its flows.
    pub fn leave(&mut self, now: Instant, client: ClientId) {
        let flows: Vec<_> = self.flows_of(client).collect();
        for flow in flows {
            // Cannot fail: the flow was just found open.
            let _ = self.close(now, flow);
        }
        self.outbox.clients.leave(client);
    }

    /// Opens a flow of the host's own transports, whose packets have at most `mtu` bytes (`cm_open`).
    pub fn open(&mut self, destination: Destination, mtu: u64) -> FlowId {
        self.admit(None, ClientId::HOST, FlowSpec::to(destination, mtu))
    }

    /// Opens a flow of a client (`cm_open`).
    ///
    /// # Errors
    /// The client has not joined; a packet size of 0 or above 65 535 bytes; a weight of 0 or above 65 536.
    pub fn open_for(&mut self, now: Instant, client: ClientId, spec: FlowSpec) -> Result<FlowId, CmError> {
        if !self.outbox.clients.is_there(client) {
            return Err(CmError::UnknownClient(client));
        }
        if !(1..=MAX_MTU).contains(&spec.mtu) {
            return Err(CmError::BadMtu(spec.mtu));
        }
        check_weight(spec.weight)?;
        Ok(self.admit(Some(now), client, spec))
    }

    fn admit(&mut self, now: Option<Instant>, client: ClientId, spec: FlowSpec) -> FlowId {
        let name = self.macroflow_for(spec.destination, spec.mtu);
        let ledger = spec.destination.user.map(|_| Ledger::of_path(self.least_of(name, spec.destination, None)));
        let id = self.flows.insert(Flow { ledger: ledger.map(Box::new), ..Flow::new(client, spec, name) });
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.take_in(spec.mtu, spec.weight);
            if spec.weight != 1 {
                mind_weights(name, macroflow, &mut self.flows);
            }
            // The new flow reduces the others' shares.
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        let (destination, at) = (spec.destination, now.unwrap_or_default());
        self.outbox.note(at, name, Some(id), || Happening::Opened { destination, client });
        id
    }

    /// Returns the macroflow that a new flow joins.
    fn macroflow_for(&mut self, destination: Destination, mtu: u64) -> u64 {
        if let Some(&name) = self.by_destination.get(&destination) {
            self.memory.revive(destination.user, name);
            return name;
        }
        let mut macroflow = Macroflow::new(destination, self.make, mtu);
        if let Some((learnt, age)) = self.memory.take(&destination) {
            macroflow.recall(learnt, age);
        }
        let name = self.add_macroflow(Instant::ZERO, macroflow);
        self.by_destination.insert(destination, name);
        name
    }

    fn add_macroflow(&mut self, now: Instant, macroflow: Macroflow) -> u64 {
        let destination = macroflow.destination;
        let resumed = macroflow.resumed();
        let name = self.macroflows.insert(macroflow);
        self.outbox.note(now, name, None, || Happening::MacroflowCreated { destination });
        if let Some(window) = resumed {
            self.outbox.note(now, name, None, || Happening::Resumed { window });
        }
        name
    }

    /// Closes a flow (`cm_close`) and frees its grants. If only its client knows the fate of its packets, the bytes in
    /// flight count for one more retransmission timeout: otherwise closing and reopening would act like an
    /// acknowledgement.
    pub fn close(&mut self, now: Instant, id: FlowId) -> Result<(), CmError> {
        let mut flow = self.flows.remove(id).ok_or(CmError::UnknownFlow(id))?;
        let name = flow.macroflow;
        self.outbox.clients.forget(id, &flow);
        self.outbox.note(now, name, Some(id), || Happening::Closed);
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            let until = flow.ledger.is_some().then(|| now + macroflow.rtt.timeout());
            macroflow.let_go(id, &mut flow, until);
        }
        self.after_departure(now, name);
        Ok(())
    }

    /// Updates a macroflow that a flow has left, and removes or keeps it if it is empty.
    fn after_departure(&mut self, now: Instant, name: u64) {
        let Some(macroflow) = self.macroflows.get_mut(name) else { return };
        if macroflow.flows > 0 {
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        } else if macroflow.apart {
            self.remove_macroflow(name);
            return;
        } else {
            if let Some(learnt) = macroflow.learnt() {
                self.memory.learn(macroflow.destination, learnt);
            }
            self.memory.linger(now, macroflow.destination.user, name);
        }
        self.settle(now, name);
        for gone in self.memory.expired(now) {
            self.remove_macroflow(gone);
        }
    }

    fn remove_macroflow(&mut self, name: u64) {
        self.timetable.set(Slab::<Macroflow>::place(name), None);
        if let Some(macroflow) = self.macroflows.remove(name)
            && !macroflow.apart
        {
            self.by_destination.remove(&macroflow.destination);
        }
    }

    /// Maximum packet size of a flow (`cm_mtu`).
    pub fn mtu(&self, id: FlowId) -> Result<u64, CmError> {
        self.flow(id).map(|flow| flow.mtu)
    }

    /// Client that opened a flow.
    pub fn client_of(&self, id: FlowId) -> Result<ClientId, CmError> {
        self.flow(id).map(|flow| flow.client)
    }

    /// Flows of a client, by index; scans all flows.
    pub fn flows_of(&self, client: ClientId) -> impl Iterator<Item = FlowId> {
        self.flows.iter().filter(move |(_, flow)| flow.client == client).map(|(id, _)| id)
    }

    /// Destination of a flow.
    pub fn destination_of(&self, id: FlowId) -> Result<Destination, CmError> {
        self.flow(id).map(|flow| flow.destination)
    }

    /// Macroflow of a flow.
    pub fn macroflow_of(&self, id: FlowId) -> Result<MacroflowId, CmError> {
        self.flow(id).map(|flow| MacroflowId::from_u64(flow.macroflow))
    }

    /// Path state of a flow (`cm_query`).
    pub fn query(&self, id: FlowId) -> Result<PathState, CmError> {
        self.both(id).map(|(flow, macroflow)| macroflow.state_of(flow))
    }

    /// Retransmission timeout of a flow's path (RFC 6298), before any backoff.
    pub fn timeout(&self, id: FlowId) -> Result<Duration, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.rtt.timeout())
    }

    /// Congestion events that a flow's macroflow has responded to.
    pub fn answered(&self, id: FlowId) -> Result<Answered, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.answers)
    }

    /// Name of the controller of a flow's macroflow.
    pub fn controller_name(&self, id: FlowId) -> Result<&'static str, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.controller.name())
    }

    /// Next time when [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timetable.first()
    }

    /// Gives grants that were waiting for the pace, expires unused ones, and counts the data of silent clients as lost.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(place) = self.timetable.next_due(now) {
            let Some((_, macroflow)) = self.macroflows.at_mut(place) else {
                self.timetable.set(place, None);
                continue;
            };
            macroflow.expire(now, &mut self.flows);
            if let Some(silent) = macroflow.poll_silent(now, &mut self.flows) {
                self.fall_silent(now, silent);
                continue;
            }
            macroflow.give_grants(now, &mut self.flows, &mut self.outbox);
            self.timetable.set(place, macroflow.poll_timeout());
        }
    }

    /// Gives the grants of a macroflow that are possible now, and sets its next timeout.
    fn settle(&mut self, now: Instant, name: u64) {
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.tidy_grants(&self.flows);
            macroflow.give_grants(now, &mut self.flows, &mut self.outbox);
            self.timetable.set(Slab::<Macroflow>::place(name), macroflow.poll_timeout());
        }
    }

    fn flow(&self, id: FlowId) -> Result<&Flow, CmError> {
        self.flows.get(id).ok_or(CmError::UnknownFlow(id))
    }

    fn both(&self, id: FlowId) -> Result<(&Flow, &Macroflow), CmError> {
        let flow = self.flow(id)?;
        self.macroflows.get(flow.macroflow).map(|macroflow| (flow, macroflow)).ok_or(CmError::UnknownFlow(id))
    }

    /// Returns a flow, its macroflow, and the outbox.
    fn parts(&mut self, id: FlowId) -> Result<(&mut Flow, &mut Macroflow, &mut Outbox), CmError> {
        let flow = self.flows.get_mut(id).ok_or(CmError::UnknownFlow(id))?;
        let macroflow = self.macroflows.get_mut(flow.macroflow).ok_or(CmError::UnknownFlow(id))?;
        Ok((flow, macroflow, &mut self.outbox))
    }
}

fn check_weight(weight: u32) -> Result<(), CmError> {
    if (1..=MAX_WEIGHT).contains(&weight) { Ok(()) } else { Err(CmError::BadWeight(weight)) }
}

/// Switches to weighted scheduling when a weight is set, unless another scheduling was chosen.
fn mind_weights(name: u64, macroflow: &mut Macroflow, flows: &mut Flows) {
    if !macroflow.order_chosen && macroflow.requests.kind() == Scheduling::RoundRobin {
        macroflow.requests.become_kind(Scheduling::Weighted, flows, name);
    }
}

#[cfg(test)]
mod tests;
