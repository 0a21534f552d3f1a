//! The end of a connection: CloseReq, Close, Reset, TIMEWAIT (RFC 4340 §8.3).

use timeous_core::Instant;

use super::refusal::refusal;
use super::timers::Timer;
use super::transmission::Control;
use super::{CloseReason, Connection, State};
use crate::features::Role;
use crate::packet::Header;
use crate::reset::{ResetCode, ResetReason};

impl Connection {
    /// Closes on behalf of the application.
    pub(super) fn begin_close(&mut self, now: Instant) {
        match self.state() {
            State::Closed | State::TimeWait | State::CloseReq | State::Closing => {}
            State::Listen => self.tear_down(State::Closed, CloseReason::Local),
            State::Request | State::Respond => {
                self.reset(ResetReason::plain(ResetCode::Aborted), CloseReason::Local);
            }
            State::PartOpen | State::Open => {
                self.lifecycle.close_here();
                let asks = self.role() == Role::Server && !self.config.server_holds_timewait;
                self.enter_closing(now, if asks { State::CloseReq } else { State::Closing });
            }
        }
    }

    /// Sends CloseReq or Close, and retransmits it until the peer answers.
    pub(super) fn enter_closing(&mut self, now: Instant, state: State) {
        self.lifecycle.enter(state);
        self.timers.stop(Timer::KeepAlive);
        self.send_close(now);
        self.timers.set(Timer::GiveUp, now + self.config.silence);
    }

    /// Retransmits an unanswered CloseReq or Close.
    pub(super) fn repeat_close(&mut self, now: Instant) {
        self.lifecycle.on_resend();
        self.send_close(now);
    }

    fn send_close(&mut self, now: Instant) {
        let asks = self.state() == State::CloseReq;
        self.transmission.queue(if asks { Control::CloseReq } else { Control::Close });
        // "The retransmission timer should initially be set to go off in two round-trip times" (§8.3).
        self.timers.set(Timer::Resend, now + self.lifecycle.resend_delay(self.round_trip.rtt() * 2));
    }

    /// Step 9 of RFC 4340 §8.5: the peer has ended the connection; this end holds TIMEWAIT.
    pub(super) fn process_reset(&mut self, now: Instant, with: ResetReason) {
        // The Reset that answered our first Close may be lost, and the peer has no state any more.
        let expected = self.state() >= State::CloseReq && with.code == ResetCode::NoConnection;
        let is_normal = with.code == ResetCode::Closed || expected;
        let reason = if is_normal { self.lifecycle.ended_by() } else { CloseReason::Reset(with) };
        self.tear_down(State::TimeWait, reason);
        self.timers.set(Timer::TimeWait, now + self.config.msl * 2);
    }

    /// Reason for the end after a timeout. After our Close the peer may be gone and its Reset lost: if the fate of all
    /// data is known, that is a normal close.
    pub(super) fn given_up(&self) -> CloseReason {
        let asked = matches!(self.state(), State::CloseReq | State::Closing);
        let is_normal = asked && self.congestion.in_flight().outstanding() == 0;
        if is_normal { self.lifecycle.ended_by() } else { CloseReason::Timeout }
    }

    /// Answers a packet that belongs to no connection by a Reset, unless it is a Reset itself (§8.3.1).
    pub(super) fn refuse(&mut self, now: Instant, to: &Header, reason: ResetReason) {
        self.log.statistics.unexpected += 1;
        if let Some(header) = refusal(to, reason) {
            self.transmission.answer(now, Control::Refusal(header));
        }
    }
}
