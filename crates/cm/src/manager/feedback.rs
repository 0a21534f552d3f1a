//! Feedback from clients: checks that it is plausible and passes it to the macroflow.

use timeous_core::{Arrived, Duration, Instant};

use crate::destination::Destination;
use crate::error::{CmError, Implausible};
use crate::flow::{FlowId, Loss, Update};
use crate::flows::Flow;
use crate::ledger::{MAX_ROUND_TRIP, MIN_ROUND_TRIP, least_sample};
use crate::macroflow::Macroflow;
use crate::path_model::Observed;
use crate::sign::CongestionSignal;
use crate::trace::Happening;

use super::Manager;

/// Interval at which the state of a path in use is reported for storage. Chosen by us. A higher value loses more of it
/// in a crash; a lower one writes more often.
const STATE_REPORT_INTERVAL: Duration = Duration::from_secs(60);

/// Result of the plausibility check: for unverified feedback the minimum RTT that it is bound to.
type Weighed = Result<Option<Duration>, Implausible>;

impl Manager {
    /// Processes a client's feedback (`cm_update`). One feedback datagram is one update: a loss in it is judged by the
    /// bytes in flight before it (`FlightSize`, RFC 5681 §3.1).
    ///
    /// # Errors
    /// The flow is not open; or the feedback cannot be true, which is counted and has no other effect.
    pub fn update(&mut self, now: Instant, id: FlowId, update: Update) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        macroflow.forget_written_off(now, flow);
        let weighed = self.weigh(now, id, &update)?;
        let (flow, macroflow, outbox) = self.parts(id)?;
        let least = weighed.map_err(|what| {
            flow.totals.refused += 1;
            macroflow.totals.refused += 1;
            outbox.note(now, flow.macroflow, Some(id), || Happening::Refused(what));
            CmError::Implausible { flow: id, what }
        })?;
        let claimed = update.acked + update.lost;
        let waits_since = (flow.outstanding > 0).then_some(flow.silence.since);
        take_back(flow, macroflow, claimed, update.acked);
        (flow.silence.since, flow.silence.count) = (now, 0);
        flow.outstanding -= claimed;
        flow.totals.acked += update.acked;
        flow.totals.lost += update.lost;
        if let Some(ledger) = &mut flow.ledger {
            ledger.told(now, claimed, least);
        }
        let before = macroflow.outstanding();
        if !update.overtaken_by.is_zero() {
            macroflow.controller.on_overtaken(now, update.overtaken_by);
            macroflow.model.overtaken(update.overtaken_by);
        }
        if update.acked > 0 || update.rtt.is_some() {
            // Unverified feedback may claim an RTT of zero: use at least the minimum of any path.
            let vouched = flow.ledger.is_none();
            let rtt = update.rtt.map(|rtt| if vouched { rtt } else { rtt.max(MIN_ROUND_TRIP) });
            let path_rtt = update.path_rtt.filter(|_| vouched).or(rtt);
            macroflow.acked(now, id, update.acked, (rtt, path_rtt), update.recovering);
        }
        if update.lost > 0 {
            macroflow.lost(now, update.lost);
        }
        if update.slow_receiver {
            macroflow.end_slow_start();
        }
        if update.acked > 0 {
            flow.timed_out = false;
        }
        if let Some((loss, sent_at)) = update.loss {
            let under_way = before.saturating_add(update.beyond_gap);
            let sign = CongestionSignal { loss, sent_at, again: flow.timed_out, lost: update.lost };
            let is_cut_off = loss == Loss::Persistent
                && update.acked == 0
                && macroflow.carries_others(id, waits_since.unwrap_or(sent_at));
            let of_path = if is_cut_off { Loss::Transient } else { loss };
            if macroflow.congested(now, under_way, CongestionSignal { loss: of_path, ..sign }) {
                outbox.note(now, flow.macroflow, Some(id), || Happening::Congestion { kind: of_path });
            }
            flow.timed_out |= loss == Loss::Persistent;
            if is_cut_off {
                self.set_aside(now, id, sign);
            }
        }
        if update.acked > 0 {
            self.bring_home(now, id);
        }
        let name = self.flow(id)?.macroflow;
        self.compare(now, name);
        self.after_feedback(now, name, id);
        Ok(())
    }

    /// Takes the arrival of a packet into the path's model, after the [`update`](Self::update) by the same acknowledgement, and
    /// returns it if that tells it exactly. A packet that left before the flow came to its macroflow says nothing about that.
    ///
    /// # Errors
    /// The flow is not open.
    pub fn observe(&mut self, id: FlowId, observed: Observed) -> Result<Option<Arrived>, CmError> {
        let (flow, macroflow, outbox) = self.parts(id)?;
        let Observed { departure, answered, uncertain } = observed;
        if departure.macroflow != flow.macroflow {
            return Ok(None);
        }
        let arrived = Arrived { predicted: departure.expected, actual: macroflow.observe(observed) };
        if !uncertain.is_zero() {
            return Ok(None);
        }
        outbox.note(answered, flow.macroflow, Some(id), || Happening::Arrived(arrived));
        Ok(Some(arrived))
    }

    /// Undoes a flow's latest timeout, which was spurious (RFC 3522): `bytes` reported lost are in flight, as the first
    /// `acked` bytes after it show, which the next update reports. Only for the host's own transports, whose feedback
    /// is verified.
    ///
    /// # Errors
    /// The flow is not open.
    pub fn undo_timeout(&mut self, now: Instant, id: FlowId, bytes: u64, acked: u64) -> Result<(), CmError> {
        let (flow, macroflow, _) = self.parts(id)?;
        flow.outstanding += bytes;
        flow.totals.lost = flow.totals.lost.saturating_sub(bytes);
        flow.timed_out = false;
        macroflow.undo_timeout(bytes, acked);
        let name = flow.macroflow;
        self.settle(now, name);
        Ok(())
    }

    /// Counts a client's silence as persistent congestion: its data in flight is lost.
    pub(super) fn fall_silent(&mut self, now: Instant, id: FlowId) {
        let Ok((flow, macroflow, outbox)) = self.parts(id) else { return };
        let (name, lost, sent_at) = (flow.macroflow, flow.outstanding, flow.silence.since);
        let before = macroflow.outstanding();
        let is_cut_off = macroflow.carries_others(id, sent_at);
        flow.outstanding = 0;
        flow.totals.lost += lost;
        (flow.silence.written_off, flow.silence.ended) = (flow.silence.written_off + lost, None);
        flow.silence.count += 1;
        flow.silence.since = now;
        macroflow.lost(now, lost);
        let loss = if is_cut_off { Loss::Transient } else { Loss::Persistent };
        let sign = CongestionSignal { loss, sent_at, again: flow.timed_out, lost };
        if macroflow.congested(now, before, sign) {
            outbox.note(now, name, Some(id), || Happening::Congestion { kind: loss });
        }
        flow.timed_out = true;
        if is_cut_off {
            self.set_aside(now, id, CongestionSignal { loss: Loss::Persistent, ..sign });
        }
        self.after_feedback(now, name, id);
    }

    fn after_feedback(&mut self, now: Instant, name: u64, id: FlowId) {
        let Some(macroflow) = self.macroflows.get_mut(name) else { return };
        macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        self.outbox.note(now, name, Some(id), || Happening::Metrics {
            state: macroflow.state(),
            threshold: macroflow.controller.threshold(),
        });
        if now.saturating_since(macroflow.learnt_at) >= STATE_REPORT_INTERVAL {
            macroflow.learnt_at = now;
            if let Some(learnt) = macroflow.learnt().filter(|_| !macroflow.apart) {
                self.memory.learn(macroflow.destination, learnt);
            }
        }
        self.settle(now, name);
    }

    /// Checks an update; returns the minimum RTT that its reporter is bound to.
    fn weigh(&self, now: Instant, id: FlowId, update: &Update) -> Result<Weighed, CmError> {
        let flow = self.flow(id)?;
        let claimed = update.acked.saturating_add(update.lost);
        let outstanding = flow.outstanding + flow.silence.written_off;
        if claimed > outstanding {
            return Ok(Err(Implausible::MoreThanSent { claimed, outstanding }));
        }
        if let Some((_, sent_at)) = update.loss.filter(|&(_, sent_at)| sent_at > now) {
            return Ok(Err(Implausible::LossInFuture { sent_at }));
        }
        Ok(if flow.ledger.is_some() { self.weigh_word(now, flow, claimed, update.rtt) } else { Ok(None) })
    }

    /// Checks unverified feedback: the reported bytes must have had time for a round trip.
    fn weigh_word(&self, now: Instant, flow: &Flow, claimed: u64, rtt: Option<Duration>) -> Weighed {
        let told = self.macroflows.get(flow.macroflow).and_then(|macroflow| macroflow.rtt.min());
        if let Some(sample) = rtt {
            if sample > MAX_ROUND_TRIP {
                return Err(Implausible::RoundTripTooLong { sample, limit: MAX_ROUND_TRIP });
            }
            // Only a new minimum can be too short: longer samples passed when the minimum did.
            if told.is_none_or(|told| sample < told)
                && let Some(floor) = self.seen_least(flow.destination).map(least_sample)
                && sample < floor
            {
                return Err(Implausible::RoundTripTooShort { sample, floor });
            }
        }
        let least = self.least_of(flow.macroflow, flow.destination, rtt);
        let possible = flow.ledger.as_ref().map_or(u64::MAX, |ledger| ledger.possible(now, least));
        if claimed > possible { Err(Implausible::TooSoon { claimed, possible }) } else { Ok(least) }
    }

    /// Minimum RTT that binds unverified feedback: the larger of the reporter's own minimum, with `sample`, and of the host's.
    pub(super) fn least_of(&self, name: u64, destination: Destination, sample: Option<Duration>) -> Option<Duration> {
        let told = self.macroflows.get(name).and_then(|macroflow| macroflow.rtt.min());
        told.into_iter().chain(sample).min().max(self.seen_least(destination))
    }

    /// Minimum RTT to a host that the host's own transports have measured.
    fn seen_least(&self, destination: Destination) -> Option<Duration> {
        let seen = |dscp| {
            let name = self.by_destination.get(&Destination { dscp, user: None, ..destination })?;
            self.macroflows.get(*name)?.rtt.min()
        };
        seen(destination.dscp).or_else(|| seen(0))
    }
}

/// Takes back the timeout of a flow whose feedback came late: bytes counted as lost are in flight.
fn take_back(flow: &mut Flow, macroflow: &mut Macroflow, claimed: u64, acked: u64) {
    let late = claimed.saturating_sub(flow.outstanding);
    if late == 0 {
        return;
    }
    flow.outstanding += late;
    flow.silence.written_off -= late;
    flow.totals.lost = flow.totals.lost.saturating_sub(late);
    if acked > 0 {
        macroflow.undo_timeout(late, acked);
        flow.timed_out = false;
    } else {
        macroflow.count_again(late);
    }
}
