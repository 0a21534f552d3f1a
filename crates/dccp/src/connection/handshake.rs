//! The handshake: Request, Response, and the Ack that completes it (RFC 4340 §8.1).

use timeous_cm::Manager;
use timeous_core::{Duration, Instant, NoAdus, RecvMeta};

use super::timers::Timer;
use super::transmission::Control;
use super::{CloseReason, Connection, Event, State};
use crate::packet::{Body, Header};
use crate::reset::{ResetCode, ResetReason};
use crate::seq::Seq;

/// "The first retransmission should occur after approximately one second" (RFC 4340 §8.1.1).
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
/// "a roughly 200-millisecond timer" (RFC 4340 §8.1.5).
const PARTOPEN_TIMEOUT: Duration = Duration::from_millis(200);
impl Connection {
    /// CLOSED to REQUEST.
    pub(super) fn begin_request(&mut self, now: Instant) {
        self.lifecycle.enter(State::Request);
        self.send_request(now);
        self.timers.set(Timer::GiveUp, now + self.config.connect_timeout);
    }

    /// Retransmits an unanswered Request, under a new sequence number.
    pub(super) fn repeat_request(&mut self, now: Instant) {
        self.lifecycle.on_resend();
        self.negotiation.features_mut().retransmit();
        self.send_request(now);
    }

    fn send_request(&mut self, now: Instant) {
        self.lifecycle.on_asked(now);
        self.transmission.queue(Control::Request);
        self.timers.set(Timer::Resend, now + self.lifecycle.resend_delay(REQUEST_TIMEOUT));
    }

    /// LISTEN to RESPOND (step 3 of RFC 4340 §8.5), or a Reset for an improper Request. Returns whether to go on.
    pub(super) fn process_listen(&mut self, now: Instant, header: &Header) -> bool {
        let code = match header.body {
            Body::Request { .. } if header.dest_port != self.target.local_port => Some(ResetCode::ConnectionRefused),
            Body::Request { service } if self.lifecycle.accepts(service) => {
                self.target.service = service;
                None
            }
            Body::Request { .. } => Some(ResetCode::BadServiceCode),
            _ => Some(ResetCode::NoConnection),
        };
        if let Some(code) = code {
            self.refuse(now, header, ResetReason::plain(code));
            return false;
        }
        self.target.remote_port = header.source_port;
        self.sequence.begin_receiving(header.seq);
        self.lifecycle.enter(State::Respond);
        // "after a timeout of not less than 4MSL" (RFC 4340 §8.1.3).
        self.timers.set(Timer::GiveUp, now + self.config.msl * 4);
        true
    }

    /// Takes the Request in LISTEN, and returns the Response, which carries `cookie` if there is one (§8.1.4).
    pub(crate) fn respond(&mut self, now: Instant, cm: &mut Manager, request: &[u8], cookie: Option<&[u8]>) -> Vec<u8> {
        if let Some(cookie) = cookie {
            self.lifecycle.add_cookie(cookie);
        }
        let mut response = Vec::new();
        self.receive(now, cm, request, RecvMeta::default());
        let _ = self.transmit(now, cm, &mut NoAdus, &mut response);
        response
    }

    /// Step 4 of RFC 4340 §8.5: in REQUEST only a Response or a Reset that acknowledges a Request is accepted.
    pub(super) fn prepare_request_state(&mut self, now: Instant, header: &Header) -> bool {
        let answers = header.ack().is_some_and(|ack| self.sequence.is_ack_valid(ack));
        let expected = match header.body {
            Body::Response { service, .. } => answers && service == self.target.service,
            Body::Reset { .. } => answers,
            _ => false,
        };
        let is_reset = matches!(header.body, Body::Reset { .. });
        if expected {
            // A Reset must come after GSR to be valid (§7.5.3).
            self.sequence.begin_receiving(if is_reset { header.seq.prev() } else { header.seq });
        } else {
            // The peer may be half-open from an earlier connection of ours: reset it with numbers that it must accept
            // (§7.5.4), but keep asking.
            self.refuse(now, header, ResetReason::packet_error(header.packet_type().number()));
        }
        expected
    }

    /// REQUEST to PARTOPEN (step 10 of RFC 4340 §8.5).
    pub(super) fn enter_partopen(&mut self, now: Instant, cm: &mut Manager) {
        self.lifecycle.enter(State::PartOpen);
        self.timers.set(Timer::GiveUp, now + self.config.msl * 4);
        self.establish(cm);
    }

    /// Restarts the PARTOPEN timer after a packet was sent: without an answer, another Ack follows (§8.1.5).
    pub(super) fn watch_partopen(&mut self, now: Instant) {
        if self.state() == State::PartOpen {
            self.timers.set(Timer::Resend, now + self.lifecycle.resend_delay(PARTOPEN_TIMEOUT));
        }
    }

    /// Enters OPEN from RESPOND or PARTOPEN (steps 11 and 12 of RFC 4340 §8.5).
    pub(super) fn enter_open(&mut self, cm: &mut Manager, by: Seq) {
        let is_server = self.state() == State::Respond;
        self.lifecycle.open(self.sequence.upcoming());
        self.sequence.open(by);
        self.timers.stop(Timer::Resend);
        self.timers.stop(Timer::GiveUp);
        if is_server {
            self.establish(cm);
        }
    }

    /// Handles an ICMP port unreachable message that quotes the packet `seq`. It ends only a Request, and only one that
    /// was sent: an open connection ignores it (RFC 5927 §5.2).
    pub(crate) fn port_unreachable(&mut self, seq: Seq) -> bool {
        let quoted = self.state() == State::Request && self.sequence.is_ack_valid(seq);
        if quoted {
            self.tear_down(State::Closed, CloseReason::Unreachable);
        }
        quoted
    }

    /// Refuses a completed handshake because there is no capacity left.
    pub(crate) fn refuse_completed(&mut self, code: ResetCode) {
        self.reset(ResetReason::plain(code), CloseReason::Local);
    }

    /// Opens the flow and reports `Connected`: both directions are known to work.
    fn establish(&mut self, cm: &mut Manager) {
        self.congestion.open(cm, self.target.destination, &self.config);
        self.log.push(Event::Connected);
    }
}
