//! The manager: flows are opened, ask to send, are granted it, tell what they sent and what became of it.

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
use crate::ledger::Ledger;
use crate::macroflow::{Answered, Macroflow, MakeController};
use crate::memory::Memory;
use crate::outbox::Outbox;
use crate::scheduler::{MAX_WEIGHT, Scheduling};
use crate::slab::Slab;
use crate::timetable::Timetable;
use crate::trace::Happening;

/// The largest packet there is.
const MAX_MTU: u64 = 65_535;

/// The Congestion Manager of a host.
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
    /// Those that new flows join.
    by_destination: BTreeMap<Destination, u64>,
    /// When each macroflow wants time to pass, by its place.
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

impl Manager {
    /// A manager whose macroflows get their controllers from `new_controller`, which is given the packet size.
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

    /// A client comes. It opens flows with [`open_for`](Self::open_for) and hears of them by
    /// [`poll_client`](Self::poll_client).
    pub fn join(&mut self) -> ClientId {
        self.outbox.clients.join()
    }

    /// A client is gone, maybe dead: its flows are closed, and what they held goes to others.
    pub fn leave(&mut self, now: Instant, client: ClientId) {
        let flows: Vec<_> = self.flows_of(client).collect();
        for flow in flows {
            // It is open: that was just looked up.
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
    /// The client has not joined; packets of no size, or larger than any; a weight of zero or above 65 536.
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
            // Its share was the others'.
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        let (destination, at) = (spec.destination, now.unwrap_or_default());
        self.outbox.note(at, name, Some(id), || Happening::Opened { destination, client });
        id
    }

    /// The macroflow that a new flow joins.
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

    /// Closes a flow (`cm_close`). What it held goes to the others. Of a flow whose client alone knows what becomes of
    /// its packets, those under way count for one more retransmission timeout: else to close and to open again would be
    /// an acknowledgement.
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

    /// A flow has left a macroflow.
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

    /// The largest packet of a flow (`cm_mtu`).
    pub fn mtu(&self, id: FlowId) -> Result<u64, CmError> {
        self.flow(id).map(|flow| flow.mtu)
    }

    /// Who opened a flow.
    pub fn client_of(&self, id: FlowId) -> Result<ClientId, CmError> {
        self.flow(id).map(|flow| flow.client)
    }

    /// The flows of a client, by place: a look at all flows.
    pub fn flows_of(&self, client: ClientId) -> impl Iterator<Item = FlowId> {
        self.flows.iter().filter(move |(_, flow)| flow.client == client).map(|(id, _)| id)
    }

    /// Where a flow's packets go.
    pub fn destination_of(&self, id: FlowId) -> Result<Destination, CmError> {
        self.flow(id).map(|flow| flow.destination)
    }

    /// The macroflow that a flow is of.
    pub fn macroflow_of(&self, id: FlowId) -> Result<MacroflowId, CmError> {
        self.flow(id).map(|flow| MacroflowId::from_u64(flow.macroflow))
    }

    /// What is known of a flow's path (`cm_query`).
    pub fn query(&self, id: FlowId) -> Result<PathState, CmError> {
        self.both(id).map(|(flow, macroflow)| macroflow.state_of(flow))
    }

    /// The retransmission timeout of a flow's path (RFC 6298), before any backoff.
    pub fn timeout(&self, id: FlowId) -> Result<Duration, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.rtt.timeout())
    }

    /// The congestion that a flow's macroflow has answered so far.
    pub fn answered(&self, id: FlowId) -> Result<Answered, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.answers)
    }

    /// The name of the controller of a flow's macroflow.
    pub fn controller_name(&self, id: FlowId) -> Result<&'static str, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.controller.name())
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timetable.first()
    }

    /// Gives the grants that the pace held back, and takes back what nobody used.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(place) = self.timetable.next_due(now) {
            let Some((_, macroflow)) = self.macroflows.at_mut(place) else {
                self.timetable.set(place, None);
                continue;
            };
            macroflow.expire(now, &mut self.flows);
            macroflow.give_grants(now, &mut self.flows, &mut self.outbox);
            self.timetable.set(place, macroflow.poll_timeout());
        }
    }

    /// Gives what a macroflow can give, and notes when time can make it give more.
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

    /// A flow, its macroflow, and what they tell others.
    fn parts(&mut self, id: FlowId) -> Result<(&mut Flow, &mut Macroflow, &mut Outbox), CmError> {
        let flow = self.flows.get_mut(id).ok_or(CmError::UnknownFlow(id))?;
        let macroflow = self.macroflows.get_mut(flow.macroflow).ok_or(CmError::UnknownFlow(id))?;
        Ok((flow, macroflow, &mut self.outbox))
    }
}

fn check_weight(weight: u32) -> Result<(), CmError> {
    if (1..=MAX_WEIGHT).contains(&weight) { Ok(()) } else { Err(CmError::BadWeight(weight)) }
}

/// Who sets a weight wants it to count, unless somebody chose another order.
fn mind_weights(name: u64, macroflow: &mut Macroflow, flows: &mut Flows) {
    if !macroflow.order_chosen && macroflow.requests.kind() == Scheduling::RoundRobin {
        macroflow.requests.become_kind(Scheduling::Weighted, flows, name);
    }
}

#[cfg(test)]
mod tests;
