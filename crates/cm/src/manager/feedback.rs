//! What clients learnt of their packets is taken in, if it can be true.

use timeous_core::{Duration, Instant};

use crate::destination::Destination;
use crate::error::{CmError, Implausible};
use crate::flow::{FlowId, Loss, Update};
use crate::flows::Flow;
use crate::ledger::{LEAST_ROUND_TRIP, MAX_ROUND_TRIP, least_sample};
use crate::sign::Sign;
use crate::trace::Happening;

use super::Manager;

/// What is learnt of a path in use is told so often.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What is wrong with an update; or the shortest round trip that binds who tells it, if his word alone is there.
type Weighed = Result<Option<Duration>, Implausible>;

impl Manager {
    /// Takes in what a client learnt of its packets (`cm_update`). One datagram of feedback is one update: what was
    /// under way before it is what a loss that it tells is judged by (`FlightSize`, RFC 5681 §3.1).
    ///
    /// # Errors
    /// The flow is not open; or the feedback cannot be true. That is counted, and changes nothing else.
    pub fn update(&mut self, now: Instant, id: FlowId, update: Update) -> Result<(), CmError> {
        let weighed = self.weigh(now, id, &update)?;
        let (flow, macroflow, outbox) = self.parts(id)?;
        let least = weighed.map_err(|what| {
            flow.totals.refused += 1;
            macroflow.totals.refused += 1;
            outbox.note(now, flow.macroflow, Some(id), || Happening::Refused(what));
            CmError::Implausible { flow: id, what }
        })?;
        let claimed = update.acked + update.lost;
        flow.outstanding -= claimed;
        flow.totals.acked += update.acked;
        flow.totals.lost += update.lost;
        if let Some(ledger) = &mut flow.ledger {
            ledger.told(now, claimed, least);
        }
        let name = flow.macroflow;
        let before = macroflow.outstanding();
        if !update.overtaken_by.is_zero() {
            macroflow.controller.on_overtaken(now, update.overtaken_by);
        }
        if update.acked > 0 || update.rtt.is_some() {
            // Whose word alone is there may say that the path takes no time: nothing is reckoned with less than any takes.
            let vouched = flow.ledger.is_none();
            let rtt = update.rtt.map(|rtt| if vouched { rtt } else { rtt.max(LEAST_ROUND_TRIP) });
            macroflow.acked(now, update.acked, rtt, update.recovering);
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
            if macroflow.congested(now, under_way, Sign { loss, sent_at, again: flow.timed_out, lost: update.lost }) {
                outbox.note(now, name, Some(id), || Happening::Congestion { kind: loss });
            }
            flow.timed_out |= loss == Loss::Persistent;
        }
        self.compare(now, name);
        self.after_feedback(now, name, id);
        Ok(())
    }

    /// The latest timeout of a flow was for nothing (RFC 3522): `bytes` that it told as lost are under way, as the first `acked`
    /// bytes after it show, which the next update tells. For the host's own transports, who take it from the wire.
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

    fn after_feedback(&mut self, now: Instant, name: u64, id: FlowId) {
        let Some(macroflow) = self.macroflows.get_mut(name) else { return };
        macroflow.tell_changes(&mut self.flows, &mut self.outbox);
        self.outbox.note(now, name, Some(id), || Happening::Metrics {
            state: macroflow.state(),
            threshold: macroflow.controller.threshold(),
        });
        if now.saturating_since(macroflow.learnt_at) >= TELL_EVERY {
            macroflow.learnt_at = now;
            if let Some(learnt) = macroflow.learnt().filter(|_| !macroflow.apart) {
                self.memory.learn(macroflow.destination, learnt);
            }
        }
        self.settle(now, name);
    }

    /// Whether an update can be true, and the shortest round trip that binds who tells it.
    fn weigh(&self, now: Instant, id: FlowId, update: &Update) -> Result<Weighed, CmError> {
        let flow = self.flow(id)?;
        let claimed = update.acked.saturating_add(update.lost);
        if claimed > flow.outstanding {
            return Ok(Err(Implausible::MoreThanSent { claimed, outstanding: flow.outstanding }));
        }
        if let Some((_, sent_at)) = update.loss.filter(|&(_, sent_at)| sent_at > now) {
            return Ok(Err(Implausible::LossInFuture { sent_at }));
        }
        Ok(if flow.ledger.is_some() { self.weigh_word(now, flow, claimed, update.rtt) } else { Ok(None) })
    }

    /// The same for one whose word alone is there: not only has he sent what he tells of, it can be there and back.
    fn weigh_word(&self, now: Instant, flow: &Flow, claimed: u64, rtt: Option<Duration>) -> Weighed {
        let told = self.macroflows.get(flow.macroflow).and_then(|macroflow| macroflow.rtt.min());
        if let Some(sample) = rtt {
            if sample > MAX_ROUND_TRIP {
                return Err(Implausible::RoundTripTooLong { sample, limit: MAX_ROUND_TRIP });
            }
            // Only a new least can be too short: what is longer was weighed when that was.
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

    /// The shortest round trip that binds who alone tells of a path: what he told himself, `sample` counted in, and what
    /// the host has seen.
    pub(super) fn least_of(&self, name: u64, destination: Destination, sample: Option<Duration>) -> Option<Duration> {
        let told = self.macroflows.get(name).and_then(|macroflow| macroflow.rtt.min());
        told.into_iter().chain(sample).min().max(self.seen_least(destination))
    }

    /// The shortest round trip to a host that its own transports have seen, who take it from the wire.
    fn seen_least(&self, destination: Destination) -> Option<Duration> {
        let seen = |dscp| {
            let name = self.by_destination.get(&Destination { dscp, user: None, ..destination })?;
            self.macroflows.get(*name)?.rtt.min()
        };
        seen(destination.dscp).or_else(|| seen(0))
    }
}
