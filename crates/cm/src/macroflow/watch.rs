//! Rate thresholds: finds the flows whose clients must be told of a changed rate (`cm_thresh`).

use crate::event_free_band::{EventFreeBand, UNKNOWN};
use crate::flow::FlowId;
use crate::flows::{Flow, Flows, Thresholds};
use crate::outbox::Outbox;
use crate::scheduler::Scheduling;

use super::Macroflow;

impl Thresholds {
    /// Lower and upper rate, for a weight of one, at which the client is told.
    fn bounds(&self) -> (f64, f64) {
        if self.told > 0.0 {
            (self.told * self.down, self.told * self.up)
        } else {
            (f64::NEG_INFINITY, f64::MIN_POSITIVE)
        }
    }

    fn is_crossed(&self, rate: f64) -> bool {
        let (low, high) = self.bounds();
        rate != self.told && (rate <= low || rate >= high)
    }
}

impl Macroflow {
    /// Rate for a weight of one.
    fn unit_rate(&self) -> f64 {
        let shares = if self.requests.kind() == Scheduling::Weighted { self.weights } else { u64::from(self.flows) };
        self.reckoned.rate.as_bps() as f64 / shares.max(1) as f64
    }

    /// Sets a flow's thresholds: `down` and `up` times the current rate.
    pub(crate) fn watch(&mut self, id: FlowId, flow: &mut Flow, down: f64, up: f64) {
        if flow.thresholds.is_none() {
            self.watchers.push(id);
        }
        flow.thresholds = Some(Thresholds { down, up, told: self.unit_rate() });
        self.calm = UNKNOWN;
    }

    /// Notes that the client of `flow` was told the current rate.
    pub(crate) fn told(&mut self, flow: &mut Flow) {
        let rate = self.unit_rate();
        if let Some(thresholds) = &mut flow.thresholds {
            thresholds.told = rate;
            self.calm = UNKNOWN;
        }
    }

    pub(crate) fn unwatch(&mut self, id: FlowId, flow: &mut Flow) {
        flow.thresholds = None;
        self.watchers.retain(|&watcher| watcher != id);
    }

    /// Queues events for the flows whose thresholds the rate has crossed.
    pub(crate) fn tell_changes(&mut self, flows: &mut Flows, outbox: &mut Outbox) {
        if self.watchers.is_empty() {
            return;
        }
        let rate = self.unit_rate();
        if rate > self.calm.above && rate < self.calm.below {
            return;
        }
        let mut calm = EventFreeBand::default();
        for &id in &self.watchers {
            let Some(flow) = flows.get_mut(id) else { continue };
            let Some(mut thresholds) = flow.thresholds else { continue };
            if thresholds.is_crossed(rate) {
                thresholds.told = rate;
                flow.thresholds = Some(thresholds);
                outbox.clients.tell_change(id, flow);
            }
            let (low, high) = thresholds.bounds();
            calm.above = calm.above.max(low);
            calm.below = calm.below.min(high);
        }
        self.calm = calm;
    }
}
