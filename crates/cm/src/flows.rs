//! Open flows and their state in the manager.

use std::net::SocketAddr;

use timeous_core::Instant;

use crate::destination::Destination;
use crate::flow::ClientId;
use crate::flow::{FlowId, FlowSpec};
use crate::ledger::Ledger;
use crate::slab::Slab;

/// Open flow.
#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) client: ClientId,
    pub(crate) destination: Destination,
    /// Key of its macroflow.
    pub(crate) macroflow: u64,
    pub(crate) mtu: u64,
    pub(crate) headers: u16,
    pub(crate) outstanding: u64,
    /// Whether a timeout was reported and nothing has been acknowledged since.
    pub(crate) timed_out: bool,
    /// Waiting requests, and how many of them have a deadline.
    pub(crate) waiting: u32,
    pub(crate) dated: u32,
    /// Grants given so far, and grants used or expired: the flow holds the difference. Both may wrap around.
    pub(crate) given: u32,
    pub(crate) gone: u32,
    /// Grants that its client has not been told of.
    pub(crate) untold: u32,
    pub(crate) grant_queued: bool,
    pub(crate) change_queued: bool,
    pub(crate) thresholds: Option<Thresholds>,
    pub(crate) weight: u32,
    /// Virtual start time in weighted fair queueing.
    pub(crate) pass: u128,
    /// Unused bytes of grants, credited in weighted fair queueing.
    pub(crate) credit: u64,
    pub(crate) totals: Totals,
    /// Plausibility limit of its feedback; only for flows whose feedback is the client's word alone.
    pub(crate) ledger: Option<Box<Ledger>>,
    pub(crate) silence: Silence,
    /// Key of the macroflow to which it returns with its next acknowledgement.
    pub(crate) home: Option<u64>,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) remote: Option<SocketAddr>,
}

/// Thresholds for callbacks about a flow's rate (`cm_thresh`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    pub(crate) down: f64,
    pub(crate) up: f64,
    /// The rate last told, for a weight of one; 0 if there was none.
    pub(crate) told: f64,
}

/// Time without feedback for data in flight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Silence {
    /// Last feedback, or the time when the first data in flight was sent.
    pub(crate) since: Instant,
    /// Time of the next check; `None`: not watched.
    pub(crate) due: Option<Instant>,
    /// Timeouts since the last feedback.
    pub(crate) count: u32,
    /// Bytes that timeouts counted as lost. Late feedback may still report them.
    pub(crate) written_off: u64,
    /// Time of the first feedback after those timeouts.
    pub(crate) ended: Option<Instant>,
}

/// Totals since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    /// In bytes, as the two below.
    pub(crate) sent: u64,
    pub(crate) acked: u64,
    pub(crate) lost: u64,
    /// Refused updates.
    pub(crate) refused: u64,
}

impl Flow {
    pub(crate) fn new(client: ClientId, spec: FlowSpec, macroflow: u64) -> Self {
        Self {
            client,
            destination: spec.destination,
            macroflow,
            mtu: spec.mtu,
            headers: spec.headers,
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
            silence: Silence::default(),
            home: None,
            local: spec.local,
            remote: spec.remote,
        }
    }

    /// Number of grants held.
    pub(crate) fn grants(&self) -> u32 {
        self.given.wrapping_sub(self.gone)
    }

    /// Whether the flow still holds its grant number `n`.
    pub(crate) fn holds(&self, n: u32) -> bool {
        n.wrapping_sub(self.gone) < self.grants()
    }

    /// Removes the flow's oldest grant.
    pub(crate) fn lose_grant(&mut self) {
        self.gone = self.gone.wrapping_add(1);
        self.untold = self.untold.min(self.grants());
    }
}

/// All open flows, by identifier.
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
