//! Lifecycle of a connection: its state, and the retransmission of packets that change it (RFC 4340 §8).

use timeous_core::{Duration, Instant};

use super::events::CloseReason;
use super::state::State;
use super::timers::backed_off;
use crate::features::Role;
use crate::seq::Seq;
use crate::service::ServiceCode;

/// State of a connection, from the handshake to the close.
#[derive(Debug)]
pub(super) struct Lifecycle {
    state: State,
    role: Role,
    /// Service Codes that a listening connection accepts.
    services: Vec<ServiceCode>,
    /// Init Cookies of the server, repeated until the handshake is known to be complete (§8.1.4).
    cookies: Vec<Vec<u8>>,
    /// Time at which the handshake's packet to be answered was sent last, and how often it was.
    asked: (Instant, u32),
    handshake_rtt: Option<Duration>,
    /// Retransmissions so far of the packet behind `Timer::Resend`.
    resends: u32,
    /// First number that a server sends in OPEN, until the client has acknowledged it or a later one.
    unconfirmed: Option<Seq>,
    /// Whether this end asked for the close.
    is_closing_here: bool,
}

impl Lifecycle {
    /// A server that accepts one of `services` begins in LISTEN.
    pub(super) fn new(role: Role, services: &[ServiceCode]) -> Self {
        Self {
            state: if role == Role::Server { State::Listen } else { State::Closed },
            role,
            services: services.to_vec(),
            cookies: Vec::new(),
            asked: (Instant::ZERO, 0),
            handshake_rtt: None,
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
        (self.state, self.resends) = (state, 0);
    }

    /// Enters OPEN; the server's first number there is `upcoming`.
    pub(super) fn open(&mut self, upcoming: Seq) {
        self.unconfirmed = (self.state == State::Respond).then_some(upcoming);
        self.state = State::Open;
        self.cookies.clear();
    }

    pub(super) fn close_here(&mut self) {
        self.is_closing_here = true;
    }

    pub(super) fn ended_by(&self) -> CloseReason {
        if self.is_closing_here { CloseReason::Local } else { CloseReason::Peer }
    }

    pub(super) fn accepts(&self, service: ServiceCode) -> bool {
        service.is_valid() && self.services.contains(&service)
    }

    pub(super) fn on_resend(&mut self) {
        self.resends += 1;
    }

    /// Time until the next retransmission, `first` before the first.
    pub(super) fn resend_delay(&self, first: Duration) -> Duration {
        backed_off(first, self.resends)
    }

    pub(super) fn cookies(&self) -> &[Vec<u8>] {
        &self.cookies
    }

    pub(super) fn add_cookie(&mut self, cookie: &[u8]) {
        self.cookies.push(cookie.to_vec());
    }

    /// Notes that the handshake's packet to be answered leaves.
    pub(super) fn on_asked(&mut self, now: Instant) {
        self.asked = (now, self.asked.1 + 1);
    }

    /// Measures the handshake's round-trip time, ambiguous if the packet was retransmitted (Karn's algorithm).
    pub(super) fn on_answered(&mut self, now: Instant) {
        let (at, times) = self.asked;
        self.handshake_rtt = (times == 1 && now > at).then(|| now - at);
    }

    pub(super) fn handshake_rtt(&self) -> Option<Duration> {
        self.handshake_rtt
    }

    /// Whether a server in OPEN has to show that it is there, after a packet that acknowledges `ack`.
    pub(super) fn must_confirm(&mut self, ack: Option<Seq>) -> bool {
        self.unconfirmed = self.unconfirmed.filter(|&first| ack.is_none_or(|ack| ack.is_before(first)));
        self.unconfirmed.is_some() && self.state == State::Open
    }
}
