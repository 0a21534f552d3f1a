//! Event queues of the manager's clients: each client is told the current state, however often it changed.

use std::collections::{BTreeMap, VecDeque};

use timeous_core::PathState;

use crate::flow::{ClientId, FlowId};
use crate::flows::Flow;

/// Event for a client. Not `non_exhaustive`: a client has an answer to each, and the compiler finds a missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// A flow may send one packet now (`cmapp_send`). One event for each grant that it holds.
    Granted(FlowId),
    /// A flow's rate has crossed one of its thresholds (`cmapp_update`): the current state of its path.
    Changed(FlowId, PathState),
}

#[derive(Debug, Default)]
struct Client {
    /// Flows with grants not yet told to the client; some of those grants may be gone again.
    granted: VecDeque<FlowId>,
    /// Flows whose rate has crossed a threshold.
    changed: VecDeque<FlowId>,
    /// The driver already knows that this client has events.
    announced: bool,
}

/// All clients: the host and those that joined.
#[derive(Debug)]
pub(crate) struct Clients {
    host: Client,
    joined: BTreeMap<ClientId, Client>,
    next: u64,
    ready: VecDeque<ClientId>,
}

impl Default for Clients {
    fn default() -> Self {
        Self { host: Client::default(), joined: BTreeMap::new(), next: 1, ready: VecDeque::new() }
    }
}

impl Clients {
    pub(crate) fn join(&mut self) -> ClientId {
        let id = ClientId::from_u64(self.next);
        self.next += 1;
        self.joined.insert(id, Client::default());
        id
    }

    pub(crate) fn leave(&mut self, id: ClientId) {
        self.joined.remove(&id);
    }

    pub(crate) fn is_there(&self, id: ClientId) -> bool {
        id == ClientId::HOST || self.joined.contains_key(&id)
    }

    fn get(&self, id: ClientId) -> Option<&Client> {
        if id == ClientId::HOST { Some(&self.host) } else { self.joined.get(&id) }
    }

    fn get_mut(&mut self, id: ClientId) -> Option<&mut Client> {
        if id == ClientId::HOST { Some(&mut self.host) } else { self.joined.get_mut(&id) }
    }

    /// Queues an event for one more grant of `flow`.
    pub(crate) fn tell_grant(&mut self, id: FlowId, flow: &mut Flow) {
        flow.untold += 1;
        if !std::mem::replace(&mut flow.grant_queued, true)
            && let Some(client) = self.get_mut(flow.client)
        {
            client.granted.push_back(id);
            self.announce(flow.client);
        }
    }

    /// Removes one queued grant of `flow`, because the client learns of it from the answer to its call.
    pub(crate) fn told_grant(&mut self, id: FlowId, flow: &mut Flow) {
        flow.untold = flow.untold.saturating_sub(1);
        if flow.untold == 0
            && let Some(client) = self.get_mut(flow.client)
            && client.granted.back() == Some(&id)
        {
            client.granted.pop_back();
            flow.grant_queued = false;
        }
    }

    /// Queues an event because the rate of `flow` has crossed a threshold.
    pub(crate) fn tell_change(&mut self, id: FlowId, flow: &mut Flow) {
        if !std::mem::replace(&mut flow.change_queued, true)
            && let Some(client) = self.get_mut(flow.client)
        {
            client.changed.push_back(id);
            self.announce(flow.client);
        }
    }

    fn announce(&mut self, id: ClientId) {
        if id != ClientId::HOST
            && let Some(client) = self.joined.get_mut(&id)
            && !std::mem::replace(&mut client.announced, true)
        {
            self.ready.push_back(id);
        }
    }

    /// Drops the queued events of a closed flow.
    pub(crate) fn forget(&mut self, id: FlowId, flow: &Flow) {
        let Some(client) = self.get_mut(flow.client) else { return };
        if flow.grant_queued {
            client.granted.retain(|&f| f != id);
        }
        if flow.change_queued {
            client.changed.retain(|&f| f != id);
        }
    }

    /// Takes the client's next flow that may have a grant to tell.
    pub(crate) fn next_granted(&mut self, id: ClientId) -> Option<FlowId> {
        let client = self.get_mut(id)?;
        client.announced = false;
        client.granted.pop_front()
    }

    /// Puts a flow with further grants to tell at the end of its client's queue.
    pub(crate) fn queue_again(&mut self, id: FlowId, client: ClientId) {
        if let Some(client) = self.get_mut(client) {
            client.granted.push_back(id);
        }
    }

    pub(crate) fn next_changed(&mut self, id: ClientId) -> Option<FlowId> {
        self.get_mut(id)?.changed.pop_front()
    }

    /// Flows of the client that may have a grant to tell.
    pub(crate) fn granted(&self, id: ClientId) -> impl Iterator<Item = FlowId> {
        self.get(id).into_iter().flat_map(|client| client.granted.iter().copied())
    }

    pub(crate) fn has_changed(&self, id: ClientId) -> bool {
        self.get(id).is_some_and(|client| !client.changed.is_empty())
    }

    /// Takes the next client to be woken.
    pub(crate) fn next_ready(&mut self) -> Option<ClientId> {
        self.ready.pop_front()
    }

    /// Marks a client as not announced, since it had no event after all.
    pub(crate) fn unannounce(&mut self, id: ClientId) {
        if let Some(client) = self.joined.get_mut(&id) {
            client.announced = false;
        }
    }
}
