//! Assignment of flows to macroflows, and the controller and scheduling of a macroflow.

use timeous_core::Instant;

use crate::destination::Destination;
use crate::error::CmError;
use crate::flow::FlowId;
use crate::flow::{ClientId, MacroflowId, Steering};
use crate::kind::Kind;
use crate::macroflow::Macroflow;
use crate::scheduler::Scheduling;
use crate::sign::CongestionSignal;
use crate::trace::Happening;

use super::{Manager, check_weight, mind_weights};

impl Manager {
    /// Moves a flow to a new macroflow of its own, because its packets take another path or are queued separately. It
    /// begins with the measured RTT and a new controller. The flow keeps its bytes in flight, requests and grants.
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

    /// Moves a flow to the macroflow of `with`, because their packets share a bottleneck. The flow keeps its bytes in
    /// flight, requests and grants.
    ///
    /// # Errors
    /// One of the flows is not open, or they belong to different users, who must not affect each other.
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

    /// Changes the destination of a flow whose peer has moved. It joins the macroflow there, or begins with the stored
    /// path state, or anew. The flow keeps its bytes in flight, requests and grants.
    ///
    /// # Errors
    /// The flow is not open, or the destination belongs to another user.
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

    /// Moves a flow whose receiver is silent, while the others' data arrives, to a macroflow of its own with a window of
    /// one packet, until it hears something: its data in flight would fill the others' window.
    pub(super) fn set_aside(&mut self, now: Instant, id: FlowId, sign: CongestionSignal) {
        let Ok(home) = self.flow(id).map(|flow| flow.macroflow) else { return };
        if self.split(now, id).is_err() {
            return;
        }
        let Ok((flow, macroflow, _)) = self.parts(id) else { return };
        flow.home = Some(home);
        macroflow.congested(now, flow.outstanding, sign);
    }

    /// Returns a flow that was set aside.
    pub(super) fn bring_home(&mut self, now: Instant, id: FlowId) {
        let Ok(flow) = self.flow(id) else { return };
        let Some(home) = flow.home else { return };
        let (destination, mtu) = (flow.destination, flow.mtu);
        let name = if self.macroflows.get(home).is_some() { home } else { self.macroflow_for(destination, mtu) };
        self.move_flow(now, id, name);
        self.outbox.note(now, name, Some(id), || Happening::Merged);
    }

    fn move_flow(&mut self, now: Instant, id: FlowId, name: u64) {
        let Some(flow) = self.flows.get_mut(id) else { return };
        flow.home = None;
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

    /// Sets the scheduling of a flow's macroflow.
    pub fn set_scheduler(&mut self, id: FlowId, scheduling: Scheduling) -> Result<(), CmError> {
        let name = self.flow(id)?.macroflow;
        if let Some(macroflow) = self.macroflows.get_mut(name) {
            macroflow.order_chosen = true;
            macroflow.requests.become_kind(scheduling, &mut self.flows, name);
            macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        }
        Ok(())
    }

    /// Sets a flow's weight in its macroflow. Unless another scheduling was chosen, weights take effect with the first
    /// one other than 1.
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

    /// Sets the rate of a flow whose transport computes it itself. The first call moves the flow to a macroflow of its
    /// own, as [`split`](Self::split) does: its receiver's reports only concern its own packets, and other flows must
    /// not be affected.
    ///
    /// # Errors
    /// The host's own transports have no such flow: other clients must use the manager's rate.
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

    /// Replaces the controller of a flow's macroflow. The new one adopts window and slow-start threshold.
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
