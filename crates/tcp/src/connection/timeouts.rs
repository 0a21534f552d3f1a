//! Expiry of timers, and the setting of those for data.

use timeous_cm::Manager;
use timeous_core::{Duration, Instant};

use super::{CloseReason, Connection, Control, State, Timer};
use crate::sender::MAX_ACK_DELAY;

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
            Timer::Handshake => self.repeat_syn(now),
            Timer::Reordering => {
                let verdict = self.sender.look_again(now, self.round_trip(cm));
                self.apply(now, cm, &verdict);
            }
            Timer::TailProbe => {
                self.pending.set(Control::TailProbe, self.sender.may_probe());
                // "regardless of whether a loss probe was sent, the sender MUST re-arm the RTO timer" (RFC 8985 §7.3).
                self.restart_retransmission_timer(now, cm);
            }
            Timer::Retransmit => self.retransmission_timeout(now, cm),
            Timer::Persist => self.persist_timeout(now, cm),
            Timer::GiveUp => self.tear_down(State::Closed, CloseReason::Timeout),
            Timer::TimeWait => self.state = State::Closed,
        }
    }

    /// Retransmits the SYN after a timeout, or gives up.
    fn repeat_syn(&mut self, now: Instant) {
        let limit = if self.state == State::SynSent { self.config.syn_retries } else { self.config.syn_ack_retries };
        if !self.handshake.repeat(limit) {
            return self.tear_down(State::Closed, CloseReason::Timeout);
        }
        self.begin_syn(now, self.state);
    }

    /// Handles a retransmission timeout (RFC 6298 §5.4 to §5.6).
    fn retransmission_timeout(&mut self, now: Instant, cm: &mut Manager) {
        if self.sender.is_idle() {
            return;
        }
        if !self.retransmission.expired(self.config.retries) {
            return self.tear_down(State::Closed, CloseReason::Timeout);
        }
        self.statistics.timeouts += 1;
        self.pending.set(Control::TailProbe, false);
        self.timers.stop(Timer::TailProbe);
        let verdict = self.sender.on_timeout(now, self.round_trip(cm));
        self.apply(now, cm, &verdict);
        self.restart_retransmission_timer(now, cm);
    }

    /// Handles a persist timeout: probes the closed window, with back-off.
    fn persist_timeout(&mut self, now: Instant, cm: &Manager) {
        if !self.window.probe(self.config.retries) {
            return self.tear_down(State::Closed, CloseReason::Timeout);
        }
        self.pending.set(Control::WindowProbe, true);
        self.set_persist_timer(now, cm);
    }

    pub(super) fn set_persist_timer(&mut self, now: Instant, cm: &Manager) {
        self.timers.set(Timer::Persist, now + self.window.probe_timeout(self.flow.timeout(cm)));
    }

    pub(super) fn restart_retransmission_timer(&mut self, now: Instant, cm: &Manager) {
        let timeout = self.retransmission.timeout(self.flow.timeout(cm), self.sender.backoff());
        self.timers.set(Timer::Retransmit, now + timeout);
    }

    /// Starts the retransmission timer after data was sent (RFC 6298 §5.1).
    pub(super) fn watch_for_acks(&mut self, now: Instant, cm: &Manager) {
        if !self.timers.is_set(Timer::Retransmit) {
            self.restart_retransmission_timer(now, cm);
        }
        if !self.timers.is_set(Timer::GiveUp) {
            self.watch_user_timeout(now);
        }
    }

    /// Restarts the user timeout: the peer has made progress, or is asked to.
    pub(super) fn watch_user_timeout(&mut self, now: Instant) {
        self.timers.set(Timer::GiveUp, self.config.user_timeout.map(|after| now + after));
    }

    /// Schedules the tail loss probe: `TLP_calc_PTO` of RFC 8985 §7.2.
    pub(super) fn schedule_tail_probe(&mut self, now: Instant, cm: &Manager) {
        if !self.config.tail_loss_probe || !self.sender.wants_probe() {
            return;
        }
        let srtt = self.flow.path(cm, self.handshake.agreed().payload()).and_then(|path| path.srtt);
        let wait = match srtt {
            Some(srtt) if self.sender.segments() == 1 => srtt * 2 + MAX_ACK_DELAY,
            Some(srtt) => srtt * 2,
            None => Duration::from_secs(1),
        };
        let at = self.timers.get(Timer::Retransmit).map_or(now + wait, |timeout| timeout.min(now + wait));
        self.timers.set(Timer::TailProbe, at);
    }
}
