//! Handling of timer expiry.

use timeous_cm::{Loss, Manager, RttEstimator};
use timeous_core::{Duration, Instant};

use super::control::Control;
use super::handshake::backed_off;
use super::{Connection, State, Timer, told};
use crate::reset::{ResetCode, ResetReason};

/// Consecutive timeouts without exponential backoff, once the path has a round-trip estimate, as Linux does for thin
/// streams (`tcp_thin_linear_timeouts`; docs/design/dccp.md). With a lower value, a burst of losses that takes the
/// probes one by one silences a stream for many times its deadline.
const STEADY_TIMEOUTS: u32 = 6;

impl Connection {
    pub(super) fn expire_timers(&mut self, now: Instant, cm: &mut Manager) {
        for timer in Timer::ALL {
            if self.timers.expired(timer, now) {
                self.expire(timer, now, cm);
            }
        }
    }

    fn expire(&mut self, timer: Timer, now: Instant, cm: &mut Manager) {
        match timer {
            Timer::Resend => match self.state {
                State::Request => self.repeat_request(now),
                State::PartOpen => self.repeat_handshake_ack(),
                State::CloseReq | State::Closing => self.repeat_close(now),
                _ => {}
            },
            // "The sending endpoint gave up on the connection because of lack of progress" (§5.6).
            Timer::GiveUp | Timer::Silence => {
                let reason = self.given_up();
                self.reset(ResetReason::plain(ResetCode::Aborted), reason);
            }
            Timer::Feedback => self.feedback_timeout(now, cm),
            Timer::Overdue => self.watch_overdue(now, cm),
            Timer::KeepAlive => {
                self.queue(Control::Sync { ack: self.sequence.gsr() });
                self.expect_feedback(now, cm);
            }
            Timer::AckDelay => match &mut self.rate_receiver {
                Some(receiver) => receiver.on_timeout(now),
                None => self.receiver.on_delay_over(),
            },
            Timer::NoFeedback => self.rate_timeout(now, cm),
            // The poll that follows sees that the time is over and sends.
            Timer::Gap | Timer::Parity => {}
            Timer::Features => {
                if now >= self.features_at {
                    self.features.retransmit();
                    self.feature_resends += 1;
                }
            }
            // The poll that follows may send data again.
            Timer::Constraint => {}
            Timer::TimeWait => self.state = State::Closed,
        }
    }

    /// Handles a feedback timeout: all packets in flight are lost, and the window collapses (RFC 4341 §5). With nothing
    /// in flight and a silent peer, probes the peer.
    fn feedback_timeout(&mut self, now: Instant, cm: &mut Manager) {
        let had_data = self.sender.outstanding() > 0;
        self.least_timeout = Duration::ZERO;
        if had_data {
            self.statistics.timeouts += 1;
            self.ack_ratio.on_timeout(self.sender.outstanding());
            let feedback = self.sender.time_out(now, self.patience(cm));
            self.apply(now, cm, &feedback, Loss::Persistent);
        } else if self.timers.is_set(Timer::Silence) {
            // "if DCCP B wants to elicit an acknowledgement, it can send a DCCP-Sync" (RFC 4340 §11.2).
            self.queue(Control::Sync { ack: self.sequence.gsr() });
        } else {
            return;
        }
        // A rate sender reduces its rate itself; backoff would delay packets that may still leave.
        if self.rate_sender.is_none() || !had_data {
            self.silences += 1;
        }
        self.set_feedback_timer(now, cm);
    }

    /// Restarts the feedback timer, with exponential backoff as in TCP except for the first few timeouts.
    pub(super) fn set_feedback_timer(&mut self, now: Instant, cm: &Manager) {
        let Some(timeout) = self.flow.and_then(|flow| told(cm.timeout(flow))) else { return };
        let timeout = timeout.max(self.feedback_patience()).max(self.least_timeout);
        // Round-trip samples exclude the acknowledgement delay that the peer reports, so it is added here.
        let steady = if self.has_round_trips(cm) { STEADY_TIMEOUTS } else { 0 };
        let doubled = self.silences.saturating_sub(steady);
        self.timers.set(Timer::Feedback, now + backed_off(timeout + self.peer_delay, doubled));
    }

    fn has_round_trips(&self, cm: &Manager) -> bool {
        self.flow.and_then(|flow| told(cm.query(flow))).is_some_and(|path| path.srtt.is_some())
    }

    /// Starts the feedback timer after data were sent; restarts it if nothing else is in flight (RFC 6298 §5).
    pub(super) fn watch_for_feedback(&mut self, now: Instant, cm: &Manager) {
        if self.sender.outstanding() == 1 && self.timers.is_set(Timer::Feedback) {
            self.set_feedback_timer(now, cm);
        }
        self.expect_feedback(now, cm);
    }

    /// Starts the feedback and silence timers. If the last round-trip sample is older than the initial timeout (RFC
    /// 6298 §2.1), queues may have grown since, and the timeout is no shorter than that.
    fn expect_feedback(&mut self, now: Instant, cm: &Manager) {
        if !self.timers.is_set(Timer::Feedback) {
            let is_old = self.measured_at.is_some_and(|at| now - at > RttEstimator::INITIAL_TIMEOUT);
            self.least_timeout = if is_old { RttEstimator::INITIAL_TIMEOUT } else { Duration::ZERO };
            self.set_feedback_timer(now, cm);
        }
        if !self.timers.is_set(Timer::Silence) {
            self.timers.set(Timer::Silence, now + self.config.silence);
        }
    }

    /// Restarts the silence and keep-alive timers: the peer has shown that it is alive.
    pub(super) fn watch_silence(&mut self, now: Instant) {
        if let Some(after) = self.config.keep_alive.filter(|_| self.state.is_established()) {
            self.timers.set(Timer::KeepAlive, now + after);
        }
        if self.sender.outstanding() > 0 {
            self.timers.set(Timer::Silence, now + self.config.silence);
        } else {
            self.timers.stop(Timer::Silence);
            self.timers.stop(Timer::Feedback);
        }
    }

    /// Keeps feature negotiation going (RFC 4340 §6.6.3). Returns whether a packet is needed for it now; at most one
    /// per round trip is sent (§6.6.1).
    pub(super) fn must_negotiate(&mut self, now: Instant) -> bool {
        if !self.features.is_negotiating() {
            self.feature_resends = 0;
            self.timers.stop(Timer::Features);
        }
        if self.features.wants_to_send() {
            if now >= self.features_at {
                return true;
            }
            self.timers.set(Timer::Features, self.features_at);
        } else if self.features.is_negotiating() && !self.timers.is_set(Timer::Features) {
            let wait = backed_off(self.rtt.max(MIN_NEGOTIATION_TIMEOUT), self.feature_resends);
            self.timers.set(Timer::Features, now + wait);
        }
        false
    }
}

/// Minimum retransmission timeout of Change options: on a fast path, delayed acknowledgements delay the answer. Chosen
/// by us: a higher value negotiates later after a loss.
const MIN_NEGOTIATION_TIMEOUT: Duration = Duration::from_millis(100);
