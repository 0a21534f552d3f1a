//! The manager's events for clients, and its snapshot and trace for observers.

use timeous_core::PathState;

use crate::client::ClientEvent;
use crate::error::CmError;
use crate::flow::ClientId;
use crate::flow::FlowId;
use crate::flow::MacroflowId;
use crate::scheduler::Scheduling;
use crate::trace::{Trace, Traced};
use crate::view::{AddressedFlow, FlowView, MacroflowView, Snapshot};

use super::Manager;

impl Manager {
    /// Sets rate thresholds (`cm_thresh`): a flow's client gets an event when the rate has fallen to `down` times the
    /// last reported one, or risen to `up` times it. The current rate counts as reported. Flows without thresholds get
    /// no such events.
    ///
    /// # Errors
    /// The flow is not open; `down` is not above 0 and at most 1, or `up` less than 1.
    pub fn thresh(&mut self, id: FlowId, down: f64, up: f64) -> Result<(), CmError> {
        if !(down > 0.0 && down <= 1.0 && up >= 1.0) {
            return Err(CmError::Thresholds { down, up });
        }
        let (flow, macroflow, _) = self.parts(id)?;
        macroflow.watch(id, flow, down, up);
        Ok(())
    }

    /// Removes the thresholds set by [`thresh`](Self::thresh).
    pub fn clear_thresh(&mut self, id: FlowId) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        macroflow.unwatch(id, flow);
        Ok(())
    }

    /// Returns the next of the host's own flows with a new grant (`cmapp_send`), for a driver that has to wake it.
    pub fn poll_granted(&mut self) -> Option<FlowId> {
        self.next_grant(ClientId::HOST)
    }

    /// Whether [`poll_granted`](Self::poll_granted) would return a flow.
    pub fn has_granted(&self) -> bool {
        self.has_grant_to_tell(ClientId::HOST)
    }

    /// Returns a client's next event: grants first, then changed rates.
    pub fn poll_client(&mut self, client: ClientId) -> Option<ClientEvent> {
        if let Some(flow) = self.next_grant(client) {
            return Some(ClientEvent::Granted(flow));
        }
        let id = self.outbox.clients.next_changed(client)?;
        let state = self.query(id).unwrap_or_default();
        if let Ok((flow, macroflow, _)) = self.parts(id) {
            flow.change_queued = false;
            macroflow.told(flow);
        }
        Some(ClientEvent::Changed(id, state))
    }

    /// Returns the next client with events, for a driver that has to wake it; each once, until
    /// [`poll_client`](Self::poll_client) is called for it. The host's own transports are not included.
    pub fn poll_ready(&mut self) -> Option<ClientId> {
        while let Some(client) = self.outbox.clients.next_ready() {
            if self.has_client_event(client) {
                return Some(client);
            }
            self.outbox.clients.unannounce(client);
        }
        None
    }

    /// Whether [`poll_client`](Self::poll_client) would return an event.
    pub fn has_client_event(&self, client: ClientId) -> bool {
        self.has_grant_to_tell(client) || self.outbox.clients.has_changed(client)
    }

    fn has_grant_to_tell(&self, client: ClientId) -> bool {
        self.outbox.clients.granted(client).any(|id| self.flows.get(id).is_some_and(|flow| flow.untold > 0))
    }

    fn next_grant(&mut self, client: ClientId) -> Option<FlowId> {
        while let Some(id) = self.outbox.clients.next_granted(client) {
            let Some(flow) = self.flows.get_mut(id) else { continue };
            let tells = flow.untold > 0;
            flow.untold = flow.untold.saturating_sub(1);
            flow.grant_queued = flow.untold > 0;
            if flow.grant_queued {
                self.outbox.clients.queue_again(id, client);
            }
            if tells {
                return Some(id);
            }
        }
        None
    }

    /// Returns the clients' flows that were opened with a local and a remote address. The host's own transports report all packets.
    pub fn addressed_flows(&self) -> impl Iterator<Item = AddressedFlow> + '_ {
        let of_clients = self.flows.iter().filter(|(_, flow)| flow.client != ClientId::HOST);
        of_clients.filter_map(|(id, flow)| {
            let (local, remote) = flow.local.zip(flow.remote)?;
            Some(AddressedFlow { id, local, remote, mtu: flow.mtu, sent: flow.totals.sent })
        })
    }

    /// Returns all macroflows with their flows.
    pub fn snapshot(&self) -> Snapshot {
        let mut macroflows: Vec<_> = self.macroflows.iter().map(|(name, _)| self.view(name)).collect();
        macroflows.sort_by_key(|macroflow| macroflow.id);
        for (id, flow) in self.flows.iter() {
            let name = MacroflowId::from_u64(flow.macroflow);
            let Ok(at) = macroflows.binary_search_by_key(&name, |macroflow| macroflow.id) else { continue };
            macroflows[at].flows.push(FlowView {
                id,
                client: flow.client,
                weight: flow.weight,
                mtu: flow.mtu,
                outstanding: flow.outstanding,
                waiting: flow.waiting,
                grants: flow.grants(),
                sent: flow.totals.sent,
                acked: flow.totals.acked,
                lost: flow.totals.lost,
                refused: flow.totals.refused,
                local: flow.local,
                remote: flow.remote,
            });
        }
        for macroflow in &mut macroflows {
            macroflow.flows.sort_by_key(|flow| flow.id);
        }
        Snapshot { macroflows }
    }

    fn view(&self, name: u64) -> MacroflowView {
        let macroflow = self.macroflows.get(name).expect("it was just listed");
        MacroflowView {
            id: MacroflowId::from_u64(name),
            destination: macroflow.destination,
            controller: macroflow.controller.name(),
            scheduling: macroflow.requests.kind(),
            state: macroflow.state(),
            threshold: macroflow.controller.threshold(),
            grants: macroflow.granted(),
            waiting: macroflow.requests.waiting(),
            answered: macroflow.answers,
            sent: macroflow.totals.sent,
            acked: macroflow.totals.acked,
            lost: macroflow.totals.lost,
            refused: macroflow.totals.refused,
            flows: Vec::new(),
        }
    }

    /// Enables or disables the trace for [`poll_trace`](Self::poll_trace), which keeps up to 16 384 entries. Disabled by default.
    pub fn trace(&mut self, on: bool) {
        if !on {
            self.outbox.trace = None;
        } else if self.outbox.trace.is_none() {
            self.outbox.trace = Some(Box::new(Trace::default()));
        }
    }

    /// Returns the next trace entry.
    pub fn poll_trace(&mut self) -> Option<Traced> {
        self.outbox.trace.as_mut()?.poll()
    }

    /// Number of trace entries that were dropped because they were not polled in time.
    pub fn trace_missed(&self) -> u64 {
        self.outbox.trace.as_ref().map_or(0, |trace| trace.missed())
    }

    /// Scheduling of a flow's macroflow.
    pub fn scheduling(&self, id: FlowId) -> Result<Scheduling, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.requests.kind())
    }

    /// Path state of a flow's macroflow: like [`query`](Self::query), with the rate of all flows together.
    pub fn query_macroflow(&self, id: FlowId) -> Result<PathState, CmError> {
        self.both(id).map(|(_, macroflow)| macroflow.state())
    }
}
