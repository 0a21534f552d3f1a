//! Scheduling of grants among the flows of a macroflow.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use timeous_core::Instant;

use crate::flow::FlowId;
use crate::flows::{Flow, Flows};

/// Scheduling discipline of a macroflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Scheduling {
    /// Unweighted round robin of packets, as in the paper (§2).
    #[default]
    RoundRobin,
    /// Bytes in proportion to the flows' weights: start-time fair queueing (Goyal et al., SIGCOMM 1996).
    Weighted,
    /// Earliest deadline first; requests without a deadline are served round robin when none has one.
    Deadline,
}

/// Virtual time per byte for a flow of weight 1, so that a flow of `MAX_WEIGHT` advances by 1 per byte. Chosen by us. A
/// higher value is more accurate; a lower one rounds heavy flows' shares.
const PASS_SCALE: u128 = 1 << 16;
/// Maximum weight of a flow. Chosen by us. A higher value needs a higher `PASS_SCALE`.
pub(crate) const MAX_WEIGHT: u32 = 1 << 16;
/// Maximum credit for unused bytes of grants, in packets. Chosen by us. A higher value lets a flow with small packets
/// send more at once, before the others.
const MAX_CREDIT: u64 = 8;

/// Queue of requests. Each flow keeps the number of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    kind: Scheduling,
    /// Flows in round-robin order.
    turn: VecDeque<FlowId>,
    /// Flows by virtual start time, then by order of arrival.
    standing: BinaryHeap<Reverse<(u128, u64, FlowId)>>,
    /// Requests by deadline, then by order of arrival.
    dated: BinaryHeap<Reverse<(Instant, u64, FlowId)>>,
    /// Virtual time: the start time of the flow served last.
    virtual_time: u128,
    arrivals: u64,
    /// Waiting requests of all flows.
    waiting: u64,
}

impl Requests {
    pub(crate) fn kind(&self) -> Scheduling {
        self.kind
    }

    /// Whether no request is waiting.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Number of waiting requests.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Adds `count` requests of `flow`.
    pub(crate) fn request(&mut self, id: FlowId, flow: &mut Flow, count: u32) {
        if count > 0 && flow.waiting == flow.dated {
            self.enqueue(id, flow);
        }
        flow.waiting += count;
        self.waiting += u64::from(count);
    }

    /// Adds a request of `flow` with a deadline.
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
            // An idle flow gains no claim to service.
            flow.pass = flow.pass.max(self.virtual_time);
            self.arrivals += 1;
            self.standing.push(Reverse((flow.pass, self.arrivals, id)));
        } else {
            self.turn.push_back(id);
        }
    }

    /// Removes and returns the next flow to be served.
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
            flow.pass += u128::from(flow.mtu - saved) * PASS_SCALE / u128::from(flow.weight);
        }
        flow.waiting -= 1;
        self.waiting -= 1;
        if flow.waiting > flow.dated {
            self.enqueue(id, flow);
        }
        Some(id)
    }

    /// Credits the unused bytes of a grant of `flow`.
    pub(crate) fn refund(&self, flow: &mut Flow, unused: u64) {
        if self.kind == Scheduling::Weighted {
            flow.credit = (flow.credit + unused).min(MAX_CREDIT * flow.mtu);
        }
    }

    /// Removes a flow and its requests.
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

    /// Changes the scheduling. Deadlines of waiting requests are dropped.
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
