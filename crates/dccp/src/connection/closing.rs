//! The end of a connection: CloseReq, Close, Reset, TIMEWAIT (RFC 4340 §8.3).

use timeous_core::Instant;

use super::control::Control;
use super::handshake::backed_off;
use super::refusal::refusal;
use super::{CloseReason, Connection, State, Timer};
use crate::features::Role;
use crate::packet::Header;
use crate::reset::{ResetCode, ResetReason};

impl Connection {
    /// Closes on behalf of the application.
    pub(super) fn begin_close(&mut self, now: Instant) {
        match self.state {
            State::Closed | State::TimeWait | State::CloseReq | State::Closing => {}
            State::Listen => self.tear_down(State::Closed, CloseReason::Local),
            State::Request | State::Respond => {
                self.reset(ResetReason::plain(ResetCode::Aborted), CloseReason::Local);
            }
            State::PartOpen | State::Open => {
                self.closing_here = true;
                let asks = self.role == Role::Server && !self.config.server_holds_timewait;
                self.enter_closing(now, if asks { State::CloseReq } else { State::Closing });
            }
        }
    }

    /// Sends CloseReq or Close, and retransmits it until the peer answers.
    fn enter_closing(&mut self, now: Instant, state: State) {
        self.state = state;
        self.resends = 0;
        self.timers.stop(Timer::KeepAlive);
        self.queue(if state == State::CloseReq { Control::CloseReq } else { Control::Close });
        // "The retransmission timer should initially be set to go off in two round-trip times" (§8.3).
        self.timers.set(Timer::Resend, now + self.rtt * 2);
        self.timers.set(Timer::GiveUp, now + self.config.silence);
    }

    /// Retransmits an unanswered CloseReq or Close.
    pub(super) fn repeat_close(&mut self, now: Instant) {
        self.resends += 1;
        self.queue(if self.state == State::CloseReq { Control::CloseReq } else { Control::Close });
        self.timers.set(Timer::Resend, now + backed_off(self.rtt * 2, self.resends));
    }

    /// Step 13 of RFC 4340 §8.5: the server asks this client to close and to hold TIMEWAIT.
    pub(super) fn process_close_req(&mut self, now: Instant) {
        self.enter_closing(now, State::Closing);
    }

    /// Step 14: the peer closes.
    pub(super) fn process_close(&mut self) {
        self.reset(ResetReason::plain(ResetCode::Closed), self.ended_by());
    }

    /// Step 9: the peer has ended the connection; this end holds TIMEWAIT.
    pub(super) fn process_reset(&mut self, now: Instant, with: ResetReason) {
        // The Reset that answered our first Close may be lost, and the peer has no state any more.
        let expected = self.state >= State::CloseReq && with.code == ResetCode::NoConnection;
        let reason =
            if with.code == ResetCode::Closed || expected { self.ended_by() } else { CloseReason::Reset(with) };
        self.tear_down(State::TimeWait, reason);
        self.timers.set(Timer::TimeWait, now + self.config.msl * 2);
    }

    /// Reason for the end after a timeout. After our Close the peer may be gone and its Reset lost: if the fate of all
    /// data is known, that is a normal close.
    pub(super) fn given_up(&self) -> CloseReason {
        let asked = matches!(self.state, State::CloseReq | State::Closing);
        if asked && self.sender.outstanding() == 0 { self.ended_by() } else { CloseReason::Timeout }
    }

    fn ended_by(&self) -> CloseReason {
        if self.closing_here { CloseReason::Local } else { CloseReason::Peer }
    }

    /// Answers a packet that belongs to no connection by a Reset, unless it is a Reset itself (§8.3.1).
    pub(super) fn refuse(&mut self, now: Instant, to: &Header, reason: ResetReason) {
        self.statistics.unexpected += 1;
        if let Some(header) = refusal(to, reason)
            && self.answers.take(now)
        {
            self.queue(Control::Refusal(header));
        }
    }
}
