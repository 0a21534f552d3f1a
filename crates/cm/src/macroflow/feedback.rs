//! Processing of feedback in a macroflow: acknowledgements, losses and congestion events.

use timeous_core::{Duration, Instant};

use crate::controller::{Acked, Congestion, TimedOut};
use crate::flow::{FlowId, Loss};
use crate::path_model::Observed;
use crate::rtt::RttEstimator;
use crate::sign::CongestionSignal;

use super::Macroflow;

impl Macroflow {
    /// Processes an acknowledgement. The window does not grow while the flow is `recovering`.
    /// `path_rtt`: RTT without the delay of acknowledgements, if known.
    pub(crate) fn acked(
        &mut self,
        now: Instant,
        id: FlowId,
        bytes: u64,
        (rtt, path_rtt): (Option<Duration>, Option<Duration>),
        recovering: bool,
    ) {
        if bytes > 0 {
            self.heard.note(now, id);
        }
        (self.last_feedback, self.probes) = (now, 0);
        if let Some(rtt) = rtt {
            self.doubt_resumption(rtt);
            self.rtt.sample(rtt);
        }
        let srtt = self.rtt.smoothed();
        if let Some(srtt) = srtt {
            self.delivery.acked(now, bytes, srtt);
            if self.controller.goes_by_use() {
                self.carried.acked(now, bytes, srtt);
            }
        }
        let window_limited = self.was_limited(now, bytes);
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.totals.acked += bytes;
        self.model.acked(bytes);
        self.goodput.arrived(now, bytes);
        self.count_loss(bytes, 0);
        if !recovering || !self.controller.heeds_recovery() {
            let rtt = if self.controller.heeds_model() { path_rtt } else { rtt };
            self.controller.on_acked(now, Acked { bytes, outstanding: self.outstanding, rtt, srtt, window_limited });
        }
        self.heard_of(bytes);
        self.reckon();
    }

    /// Takes the arrival of a packet into the path's model.
    pub(crate) fn observe(&mut self, observed: Observed) -> Instant {
        // Other controllers keep what they know of the path, and with them the model.
        let longer = if self.controller.heeds_model() { self.model.find_longer(&observed) } else { None };
        let at = self.model.arrived(observed, self.rtt.min());
        if let Some(longer) = longer {
            self.model.begin_anew(observed.answered, longer);
            self.rtt.forget_min();
            self.controller.on_another_path();
        }
        if self.controller.heeds_model()
            && let Some(model) = self.model.predictions(self.rtt.min())
        {
            self.controller.on_model(self.last_feedback, &model);
            self.reckon();
        }
        at
    }

    /// Whether packets that other flows have sent after `since` arrived, so that the path is not the reason why a flow
    /// hears nothing.
    pub(crate) fn carries_others(&self, id: FlowId, since: Instant) -> bool {
        let round = self.rtt.smoothed().unwrap_or(RttEstimator::INITIAL_TIMEOUT);
        self.heard.beside(id).is_some_and(|at| at > since + round)
    }

    /// Ends slow start: the window stays and grows at most additively.
    pub(crate) fn end_slow_start(&mut self) {
        self.controller.end_slow_start();
    }

    /// Whether the window was the limit during the last round trip, is in use now, or is validated by recent use.
    fn was_limited(&self, now: Instant, bytes: u64) -> bool {
        self.was_limited_at(now)
            || self.controller.is_used(self.outstanding.max(bytes) + self.mtu)
            || self.is_validated(now)
    }

    /// Removes lost bytes from the bytes in flight.
    pub(crate) fn lost(&mut self, now: Instant, bytes: u64) {
        (self.last_feedback, self.probes) = (now, 0);
        self.outstanding = self.outstanding.saturating_sub(bytes);
        self.totals.lost += bytes;
        self.count_loss(0, bytes);
        self.controller.on_lost(now, bytes);
        self.heard_of(bytes);
        self.reckon();
    }

    /// Responds to congestion, once for all packets sent before the response; returns whether it responded now.
    /// `outstanding`: bytes in flight when it was detected.
    pub(crate) fn congested(&mut self, now: Instant, outstanding: u64, sign: CongestionSignal) -> bool {
        let CongestionSignal { loss, sent_at, again, lost } = sign;
        // Packets sent at the instant of a response count as sent after it: drivers process feedback before they send.
        let answered = self.reduced_at.is_some_and(|at| sent_at < at);
        if loss == Loss::None || (answered && loss != Loss::Persistent) {
            return false;
        }
        let retreats = self.retreat(sent_at);
        // Bytes in flight beyond the window do not count (RFC 5681 §3.2, step 2): no congestion response may enlarge the window.
        let outstanding = outstanding.min(self.controller.window());
        match loss {
            Loss::Persistent => {
                let again = again || self.timed_out_at.is_some_and(|at| sent_at < at);
                self.note_timeout(again);
                self.controller.on_timeout(now, TimedOut { outstanding, again });
                self.timed_out_at = Some(now);
                self.answers.timeouts += u64::from(!again);
            }
            Loss::Transient | Loss::Ecn | Loss::None => {
                self.undoable = None;
                let marked = loss == Loss::Ecn;
                let outstanding = self.at_stake(now, outstanding, lost).min(self.controller.window());
                if !retreats {
                    self.controller.on_congestion(now, Congestion { outstanding, marked });
                }
                let count = if marked { &mut self.answers.marks } else { &mut self.answers.losses };
                *count += 1;
            }
        }
        self.reduced_at = Some(now);
        self.signs.met(now);
        self.reckon();
        true
    }

    fn count_loss(&mut self, acked: u64, lost: u64) {
        // Moving average over about a hundred packets.
        let packets = (acked + lost) as f64 / self.mtu as f64;
        let gain = (packets / 100.0).min(1.0);
        let share = if acked + lost == 0 { 0.0 } else { lost as f64 / (acked + lost) as f64 };
        self.loss_share += (share - self.loss_share) * gain;
    }
}
