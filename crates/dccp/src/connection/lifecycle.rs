//! Lifecycle of a connection: its state, and the retransmission of packets that change it (RFC 4340 §8).

use timeous_core::{Duration, Instant};

use super::events::CloseReason;
use super::state::State;
use super::timers::backed_off;
use crate::features::Role;
use crate::seq::Seq;
use crate::service::ServiceCode;

/// State of a connection, from the handshake to the close.
#[derive(Clone, Debug)]
pub(super) struct Lifecycle {
    state: State,
    role: Role,
    /// Service Codes that a listening connection accepts.
    services: Vec<ServiceCode>,
    /// Init Cookies of the server, repeated until the handshake is known to be complete (§8.1.4).
    cookies: Vec<Vec<u8>>,
    handshake: HandshakeRtt,
    /// Retransmissions so far of the packet behind `Timer::Resend`.
    resends: u32,
    /// First number that a server sends in OPEN, until the client has acknowledged it or a later one.
    unconfirmed: Option<Seq>,
    /// Whether this end asked for the close.
    is_closing_here: bool,
}

/// Measurement of the handshake's round-trip time; ambiguous if a packet was retransmitted (Karn's algorithm).
#[derive(Clone, Copy, Debug)]
enum HandshakeRtt {
    Unsent,
    Sent(Instant),
    Resent,
    Measured(Duration),
}

impl Lifecycle {
    /// A server that accepts one of `services` begins in LISTEN.
    pub(super) fn new(role: Role, services: &[ServiceCode]) -> Self {
        Self {
            state: if role == Role::Server { State::Listen } else { State::Closed },
            role,
            services: services.to_vec(),
            cookies: Vec::new(),
            handshake: HandshakeRtt::Unsent,
            resends: 0,
            unconfirmed: None,
            is_closing_here: false,
        }
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    pub(super) fn role(&self) -> Role {
        self.role
    }

    pub(super) fn enter(&mut self, state: State) {
        self.state = state;
    }

    /// Enters a state whose packet is retransmitted until it is answered.
    pub(super) fn enter_resending(&mut self, state: State) {
        (self.state, self.resends) = (state, 0);
    }

    /// Enters OPEN; the server's first number there is `upcoming`.
    pub(super) fn open(&mut self, upcoming: Seq) {
        if self.state == State::Respond {
            self.unconfirmed = Some(upcoming);
        }
        self.state = State::Open;
        self.cookies.clear();
    }

    /// Enters a closing state on behalf of the application.
    pub(super) fn close_here(&mut self) {
        self.is_closing_here = true;
    }

    pub(super) fn accepts(&self, service: ServiceCode) -> bool {
        service.is_valid() && self.services.contains(&service)
    }

    /// Counts a retransmission.
    pub(super) fn count_resend(&mut self) {
        self.resends += 1;
    }

    /// Time until the next retransmission, `first` before the first.
    pub(super) fn resend_delay(&self, first: Duration) -> Duration {
        backed_off(first, self.resends)
    }

    /// Init Cookies to be repeated.
    pub(super) fn cookies(&self) -> &[Vec<u8>] {
        &self.cookies
    }

    /// Forgets the Init Cookies of an earlier packet.
    pub(super) fn begin_packet(&mut self) {
        if self.state == State::Request {
            self.cookies.clear();
        }
    }

    pub(super) fn add_cookie(&mut self, cookie: &[u8]) {
        self.cookies.push(cookie.to_vec());
    }

    /// Notes that the handshake's packet to be answered leaves.
    pub(super) fn on_asked(&mut self, now: Instant) {
        let is_first = matches!(self.handshake, HandshakeRtt::Unsent);
        self.handshake = if is_first { HandshakeRtt::Sent(now) } else { HandshakeRtt::Resent };
    }

    /// Notes that the answer has arrived.
    pub(super) fn on_answered(&mut self, now: Instant) {
        if let HandshakeRtt::Sent(at) = self.handshake
            && now > at
        {
            self.handshake = HandshakeRtt::Measured(now - at);
        }
    }

    pub(super) fn handshake_rtt(&self) -> Option<Duration> {
        if let HandshakeRtt::Measured(rtt) = self.handshake { Some(rtt) } else { None }
    }

    /// Whether a server in OPEN has to show that it is there, after a packet that acknowledges `ack`.
    pub(super) fn must_confirm(&mut self, ack: Option<Seq>) -> bool {
        let Some(first) = self.unconfirmed else { return false };
        let is_confirmed = ack.is_some_and(|ack| !ack.is_before(first));
        if is_confirmed {
            self.unconfirmed = None;
        }
        !is_confirmed && self.state == State::Open
    }

    /// Reason of a normal end.
    pub(super) fn ended_by(&self) -> CloseReason {
        if self.is_closing_here { CloseReason::Local } else { CloseReason::Peer }
    }
}
