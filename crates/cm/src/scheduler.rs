//! Which flow of a macroflow gets the next grant: unweighted round robin, as in the paper (§2).

use std::collections::{BTreeMap, VecDeque};

use crate::flow::FlowId;

/// Requests that wait for a grant, served in turn: each flow has one, then each its second.
#[derive(Clone, Debug, Default)]
pub(crate) struct RoundRobin {
    turn: VecDeque<FlowId>,
    pending: BTreeMap<FlowId, u32>,
}

impl RoundRobin {
    /// A flow asks for one more grant.
    pub(crate) fn request(&mut self, flow: FlowId) {
        let count = self.pending.entry(flow).or_insert(0);
        if *count == 0 {
            self.turn.push_back(flow);
        }
        *count = count.saturating_add(1);
    }

    /// How many requests of `flow` wait.
    pub(crate) fn waiting(&self, flow: FlowId) -> u32 {
        self.pending.get(&flow).copied().unwrap_or(0)
    }

    /// Whether no request waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.turn.is_empty()
    }

    /// The flow whose turn it is; its request is served.
    pub(crate) fn next(&mut self) -> Option<FlowId> {
        let flow = self.turn.pop_front()?;
        if let Some(count) = self.pending.get_mut(&flow) {
            // An entry of zero stays until the flow is forgotten: a request does not allocate.
            *count -= 1;
            if *count > 0 {
                self.turn.push_back(flow);
            }
        }
        Some(flow)
    }

    /// A flow is gone, and what it asked for with it.
    pub(crate) fn forget(&mut self, flow: FlowId) {
        self.pending.remove(&flow);
        self.turn.retain(|&f| f != flow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_take_turns_whatever_they_ask_for() {
        let (a, b) = (FlowId::new(1), FlowId::new(2));
        let mut robin = RoundRobin::default();
        for _ in 0..3 {
            robin.request(a);
        }
        robin.request(b);
        let order: Vec<_> = std::iter::from_fn(|| robin.next()).collect();
        assert_eq!(order, [a, b, a, a]);
    }

    #[test]
    fn a_flow_that_is_gone_gets_nothing() {
        let (a, b) = (FlowId::new(1), FlowId::new(2));
        let mut robin = RoundRobin::default();
        robin.request(a);
        robin.request(b);
        robin.forget(a);
        assert_eq!(robin.next(), Some(b));
        assert!(robin.is_empty());
    }
}
