//! End of a connection: FIN in each direction, TIME-WAIT, resets (RFC 9293 §3.6, §3.10.4, §3.10.5).

use timeous_core::Instant;

use super::pending_segments::Reset;
use super::{CloseReason, Connection, Event, State, Timer};
use crate::segment::{Flags, Header, Options, Segment, Timestamps};

impl Connection {
    /// Handles the application's CLOSE (RFC 9293 §3.10.4).
    pub(super) fn begin_close(&mut self) {
        match self.state {
            State::Listen | State::SynSent => self.tear_down(State::Closed, CloseReason::Finished),
            // In SYN-RECEIVED, the FIN is queued until ESTABLISHED.
            _ => self.is_closing = true,
        }
    }

    /// Handles the application's ABORT (RFC 9293 §3.10.5).
    pub(super) fn begin_abort(&mut self) {
        let reset = Reset { seq: self.wire(self.sender.nxt()), ack: self.receiver.as_ref().map(|r| r.next()) };
        let tells = self.state.is_synchronized() && self.state.is_alive();
        if self.state.is_alive() {
            self.tear_down(State::Closed, CloseReason::Aborted);
        }
        if tells {
            self.owed.reset = Some(reset);
        }
        self.receiver = None;
        self.state = State::Closed;
        self.timers.stop_all();
    }

    /// Records that the FIN was sent.
    pub(super) fn fin_sent(&mut self) {
        self.fin = Some(self.sender.nxt());
        self.state = if self.state == State::CloseWait { State::LastAck } else { State::FinWait1 };
    }

    /// Changes the state if the peer has acknowledged the FIN.
    pub(super) fn process_fin_acked(&mut self, now: Instant) {
        if self.fin.is_none_or(|fin| self.sender.una() < fin) {
            return;
        }
        match self.state {
            State::FinWait1 => self.state = State::FinWait2,
            State::Closing => self.enter_time_wait(now),
            State::LastAck => self.tear_down(State::Closed, CloseReason::Finished),
            _ => {}
        }
    }

    /// Handles the peer's FIN, after all data before it has arrived.
    pub(super) fn process_fin(&mut self, now: Instant) {
        self.events.push_back(Event::PeerFinished);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    fn enter_time_wait(&mut self, now: Instant) {
        self.tear_down(State::TimeWait, CloseReason::Finished);
        self.restart_time_wait(now);
    }

    /// Returns whether a SYN may replace this connection, which is in TIME-WAIT: its sequence number or timestamp must
    /// be beyond those of any segment in flight (RFC 9293 §3.6.1, RFC 6191).
    pub(crate) fn is_outlived_by(&self, segment: &Segment<'_>) -> bool {
        let is_syn = segment.has(Flags::SYN) && segment.header.ack.is_none() && !segment.has(Flags::RST);
        let Some(receiver) = self.receiver.as_ref().filter(|_| is_syn && self.state == State::TimeWait) else {
            return false;
        };
        let (mut header, mut options) = (Header::new(0, 0, segment.header.seq), Options::default());
        options.timestamps = self.agreed.timestamps.then(Timestamps::default);
        receiver.stamp(&mut header, &mut options);
        let is_later = match (options.timestamps, segment.options.timestamps) {
            (Some(last), Some(this)) => this.value.wrapping_sub(last.echo) as i32 > 0,
            _ => false,
        };
        is_later || segment.header.seq.is_after(receiver.next())
    }

    pub(super) fn restart_time_wait(&mut self, now: Instant) {
        self.timers.set(Timer::TimeWait, now + self.config.time_wait);
    }
}
