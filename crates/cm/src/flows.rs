//! The flows that are open, as the manager keeps them.

use std::net::SocketAddr;

use crate::destination::Destination;
use crate::flow::ClientId;
use crate::flow::{FlowId, FlowSpec};
use crate::ledger::Ledger;
use crate::slab::Slab;

/// A flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) client: ClientId,
    pub(crate) destination: Destination,
    /// The name of its macroflow.
    pub(crate) macroflow: u64,
    pub(crate) mtu: u64,
    pub(crate) outstanding: u64,
    /// A timeout was told, and nothing has been acknowledged since.
    pub(crate) timed_out: bool,
    /// Requests that wait, and how many of them have a deadline.
    pub(crate) waiting: u32,
    pub(crate) dated: u32,
    /// Grants that it was given and that are gone, used or not: those between it holds. Both may wrap around.
    pub(crate) given: u32,
    pub(crate) gone: u32,
    /// Grants of which its client has not been told.
    pub(crate) untold: u32,
    pub(crate) grant_queued: bool,
    pub(crate) change_queued: bool,
    pub(crate) thresholds: Option<Thresholds>,
    pub(crate) weight: u32,
    /// Where it stands among flows that are served by weight.
    pub(crate) pass: u128,
    /// Bytes of grants that it did not need.
    pub(crate) credit: u64,
    pub(crate) totals: Totals,
    /// What it can claim by now; only where nobody else vouches for its feedback.
    pub(crate) ledger: Option<Box<Ledger>>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
}

/// When a flow's client is told of its rate (`cm_thresh`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) down: f64,
    pub(crate) up: f64,
    /// The rate that it was told last, for a share of one; nothing if there was none.
    pub(crate) told: f64,
}

/// What was counted since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// Bytes.
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    /// Updates that were refused.
    pub(crate) refused: u64,
}

impl Flow {
    pub(crate) fn new(client: ClientId, spec: FlowSpec, macroflow: u64) -> Self {
        Self {
            client,
            destination: spec.destination,
            macroflow,
            mtu: spec.mtu,
            outstanding: 0,
            timed_out: false,
            waiting: 0,
            dated: 0,
            given: 0,
            gone: 0,
            untold: 0,
            grant_queued: false,
            change_queued: false,
            thresholds: None,
            weight: spec.weight,
            pass: 0,
            credit: 0,
            totals: Totals::default(),
            ledger: None,
            local: spec.local,
            remote: spec.remote,
        }
    }

    /// How many grants it holds.
    pub(crate) fn grants(&self) -> u32 {
        self.given.wrapping_sub(self.gone)
    }

    /// Whether it still holds its grant number `n`.
    pub(crate) fn holds(&self, n: u32) -> bool {
        n.wrapping_sub(self.gone) < self.grants()
    }

    /// One of its grants is gone, the oldest.
    pub(crate) fn lose_grant(&mut self) {
        self.gone = self.gone.wrapping_add(1);
        self.untold = self.untold.min(self.grants());
    }
}

/// All flows, by name.
#[derive(Debug, Default)]
pub(crate) struct Flows(Slab<Flow>);

impl Flows {
    pub(crate) fn insert(&mut self, flow: Flow) -> FlowId {
        FlowId::from_u64(self.0.insert(flow))
    }

    pub(crate) fn remove(&mut self, id: FlowId) -> Option<Flow> {
        self.0.remove(id.as_u64())
    }

    pub(crate) fn get(&self, id: FlowId) -> Option<&Flow> {
        self.0.get(id.as_u64())
    }

    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.0.get_mut(id.as_u64())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        self.0.iter().map(|(id, flow)| (FlowId::from_u64(id), flow))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (FlowId, &mut Flow)> {
        self.0.iter_mut().map(|(id, flow)| (FlowId::from_u64(id), flow))
    }
}
