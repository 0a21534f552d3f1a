//! Which flows share congestion state, by which controller, and how they take turns.

use timeous_core::Instant;

use crate::destination::Destination;
use crate::error::CmError;
use crate::flow::FlowId;
use crate::flow::{ClientId, MacroflowId, Steering};
use crate::kind::Kind;
use crate::macroflow::Macroflow;
use crate::scheduler::Scheduling;
use crate::trace::Happening;

use super::{Manager, check_weight, mind_weights};

impl Manager {
    /// Gives a flow a macroflow of its own, since its packets take another path or are queued apart. It begins with the
    /// round trips that were measured and a new controller. What is under way, requests and grants go with the flow.
    pub fn split(&mut self, now: Instant, id: FlowId) -> Result<MacroflowId, CmError> {
        let (flow, old) = self.both(id)?;
        let mut apart = Macroflow::new(flow.destination, old.make, flow.mtu);
        apart.apart = true;
        apart.rtt = old.rtt;
        apart.inherit_signs(old);
        let name = self.add_macroflow(now, apart);
        self.move_flow(now, id, name);
        self.outbox.note(now, name, Some(id), || Happening::Split);
        Ok(MacroflowId::from_u64(name))
    }

    /// Moves a flow to the macroflow of `with`, since their packets share a bottleneck. What is under way, requests and
    /// grants go with it.
    ///
    /// # Errors
    /// One of the flows is not open, or they are of different users: none may hurt the flows of another.
    pub fn merge(&mut self, now: Instant, id: FlowId, with: FlowId) -> Result<(), CmError> {
        let (flow, other) = (self.flow(id)?, self.flow(with)?);
        if flow.destination.user != other.destination.user {
            return Err(CmError::Untrusted { flow: id, with });
        }
        let name = other.macroflow;
        if flow.macroflow != name {
            self.move_flow(now, id, name);
            self.outbox.note(now, name, Some(id), || Happening::Merged);
        }
        Ok(())
    }

    /// The packets of a flow go to another host from now on: its peer has moved. It joins the flows there, or begins with what
    /// is remembered of that path, or anew. What is under way, requests and grants go with the flow.
    ///
    /// # Errors
    /// The flow is not open, or the destination is another user's.
    pub fn redirect(&mut self, now: Instant, id: FlowId, destination: Destination) -> Result<(), CmError> {
        let flow = self.flow(id)?;
        let mtu = flow.mtu;
        if flow.destination.user != destination.user {
            return Err(CmError::Untrusted { flow: id, with: id });
        }
        if flow.destination == destination {
            return Ok(());
        }
        let name = self.macroflow_for(destination, mtu);
        if let Some(flow) = self.flows.get_mut(id) {
            flow.destination = destination;
        }
        self.move_flow(now, id, name);
        self.outbox.note(now, name, Some(id), || Happening::Merged);
        Ok(())
    }

    fn move_flow(&mut self, now: Instant, id: FlowId, name: u64) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        let (from, waiting, weight) = (flow.macroflow, flow.waiting, flow.weight);
        if let Some(macroflow) = self.macroflows.get_mut(from) {
            macroflow.let_go(id, flow, None);
        }
        flow.macroflow = name;
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.welcome(now, id, flow, waiting);
            if weight != 1 {
                mind_weights(name, macroflow, &mut self.flows);
            }
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        self.settle(now, name);
        self.after_departure(now, from);
    }

    /// How the flows of a flow's macroflow take turns from now on.
    pub fn set_scheduler(&mut self, id: FlowId, scheduling: Scheduling) -> Result<(), CmError> {
        let name = self.flow(id)?.macroflow;
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.order_chosen = true;
            macroflow.requests.become_kind(scheduling, &mut self.flows, name);
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        Ok(())
    }

    /// A flow's share beside the others of its macroflow. Unless somebody chose another order, weights count from the
    /// first that is not one.
    ///
    /// # Errors
    /// The flow is not open, or the weight is not from 1 to 65 536.
    pub fn set_weight(&mut self, id: FlowId, weight: u32) -> Result<(), CmError> {
        check_weight(weight)?;
        let (flow, macroflow, _) = self.parts(id)?;
        macroflow.reweigh(flow.weight, weight);
        flow.weight = weight;
        let name = flow.macroflow;
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            if weight != 1 {
                mind_weights(name, macroflow, &mut self.flows);
            }
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        Ok(())
    }

    /// A flow's transport reckons its rate itself, and the flow sends at that from now on. Its first call gives the flow a
    /// macroflow of its own, as [`split`](Self::split) does: what its receiver tells is of its packets alone, and flows that
    /// are controlled otherwise go on as they did.
    ///
    /// # Errors
    /// No flow of the host's own transports has this name: others have to let their rate be reckoned.
    pub fn steer(&mut self, now: Instant, id: FlowId, steering: Steering) -> Result<(), CmError> {
        let (flow, macroflow) = self.both(id)?;
        if flow.client != ClientId::HOST {
            return Err(CmError::UnknownFlow(id));
        }
        if !macroflow.apart || macroflow.flows > 1 {
            self.split(now, id)?;
        }
        let (flow, macroflow, _) = self.parts(id)?;
        macroflow.steer(steering);
        let name = flow.macroflow;
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        self.settle(now, name);
        Ok(())
    }

    /// Another controller for a flow's macroflow. It takes over the window and the slow start threshold.
    pub fn set_controller(&mut self, id: FlowId, kind: Kind) -> Result<(), CmError> {
        let (_, macroflow, _) = self.parts(id)?;
        macroflow.change_controller(kind.constructor());
        let name = self.flow(id)?.macroflow;
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        Ok(())
    }
}
