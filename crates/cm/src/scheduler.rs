//! Which flow of a macroflow gets the next grant.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use timeous_core::Instant;

use crate::flow::FlowId;
use crate::flows::{Flow, Flows};

/// How the flows of a macroflow take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scheduling {
    /// Each a packet, then each its second: unweighted round robin, as in the paper (§2).
    #[default]
    RoundRobin,
    /// Bytes in proportion to the flows' weights, by start-time fair queueing (Goyal et al., SIGCOMM 1996).
    Weighted,
    /// The request with the earliest deadline first; those without one take turns when none has one.
    Deadline,
}

/// How far a byte moves a flow of the greatest weight.
const SCALE: u128 = 1 << 16;
/// The greatest weight.
pub(crate) const MAX_WEIGHT: u32 = 1 << 16;
/// Grants' worth of unused bytes that a flow may save up.
const MAX_CREDIT: u64 = 8;

/// Requests that wait for a grant. How many of each flow is kept with the flow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    kind: Scheduling,
    /// Flows that take turns.
    turn: VecDeque<FlowId>,
    /// Flows by where they stand, then by who came first.
    standing: BinaryHeap<Reverse<(u128, u64, FlowId)>>,
    /// Requests by deadline, then by which came first.
    dated: BinaryHeap<Reverse<(Instant, u64, FlowId)>>,
    /// Where the flow stood that was served last.
    virtual_time: u128,
    arrivals: u64,
    /// Requests of all flows.
    waiting: u64,
}

impl Requests {
    pub(crate) fn kind(&self) -> Scheduling {
        self.kind
    }

    /// Whether no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// `flow` asks for `count` more grants.
    pub(crate) fn request(&mut self, id: FlowId, flow: &mut Flow, count: u32) {
        if count > 0 && flow.waiting == flow.dated {
            self.enqueue(id, flow);
        }
        flow.waiting += count;
        self.waiting += u64::from(count);
    }

    /// `flow` asks for a grant by `deadline`.
    pub(crate) fn request_by(&mut self, id: FlowId, flow: &mut Flow, deadline: Instant) {
        if self.kind != Scheduling::Deadline {
            return self.request(id, flow, 1);
        }
        self.arrivals += 1;
        self.dated.push(Reverse((deadline, self.arrivals, id)));
        flow.dated += 1;
        flow.waiting += 1;
        self.waiting += 1;
    }

    fn enqueue(&mut self, id: FlowId, flow: &mut Flow) {
        if self.kind == Scheduling::Weighted {
            // Who was away has saved nothing up.
            flow.pass = flow.pass.max(self.virtual_time);
            self.arrivals += 1;
            self.standing.push(Reverse((flow.pass, self.arrivals, id)));
        } else {
            self.turn.push_back(id);
        }
    }

    /// The flow whose turn it is; its request is served.
    pub(crate) fn next(&mut self, flows: &mut Flows) -> Option<FlowId> {
        if let Some(Reverse((_, _, id))) = self.dated.pop() {
            let flow = flows.get_mut(id)?;
            flow.dated -= 1;
            flow.waiting -= 1;
            self.waiting -= 1;
            return Some(id);
        }
        let id = if self.kind == Scheduling::Weighted {
            let Reverse((pass, _, id)) = self.standing.pop()?;
            self.virtual_time = pass;
            id
        } else {
            self.turn.pop_front()?
        };
        let flow = flows.get_mut(id)?;
        if self.kind == Scheduling::Weighted {
            let saved = flow.credit.min(flow.mtu);
            flow.credit -= saved;
            flow.pass += u128::from(flow.mtu - saved) * SCALE / u128::from(flow.weight);
        }
        flow.waiting -= 1;
        self.waiting -= 1;
        if flow.waiting > flow.dated {
            self.enqueue(id, flow);
        }
        Some(id)
    }

    /// A grant of `flow` was used for less than a whole packet.
    pub(crate) fn refund(&self, flow: &mut Flow, unused: u64) {
        if self.kind == Scheduling::Weighted {
            flow.credit = (flow.credit + unused).min(MAX_CREDIT * flow.mtu);
        }
    }

    /// A flow goes, and what it asked for with it.
    pub(crate) fn forget(&mut self, id: FlowId, flow: &mut Flow) {
        if flow.waiting == 0 {
            return;
        }
        self.turn.retain(|&f| f != id);
        self.standing.retain(|&Reverse((_, _, f))| f != id);
        self.dated.retain(|&Reverse((_, _, f))| f != id);
        self.waiting -= u64::from(flow.waiting);
        (flow.waiting, flow.dated) = (0, 0);
    }

    /// Serves by another order from now on. Deadlines that were told are kept only among deadlines.
    pub(crate) fn become_kind(&mut self, kind: Scheduling, flows: &mut Flows, macroflow: u64) {
        if kind == self.kind {
            return;
        }
        *self = Self { kind, waiting: self.waiting, ..Self::default() };
        for (id, flow) in flows.iter_mut().filter(|(_, flow)| flow.macroflow == macroflow) {
            (flow.pass, flow.credit, flow.dated) = (0, 0, 0);
            if flow.waiting > 0 {
                self.enqueue(id, flow);
            }
        }
    }
}

#[cfg(test)]
mod tests;
