//! One stream over a TCP socket of the kernel, from connecting to the close.

use std::io;
use std::net::IpAddr;

use rustix::event::epoll::EventFlags;
use timeous_cm::{FlowId, Manager};
use timeous_core::{Duration, Instant, Rate};
use timeous_seal::{CallerCredential, SealError, Secrets};
use timeous_stream::StreamId;
use timeous_transport::{CloseReason, Event, ResetCode, ResetReason, Statistics};

use crate::call::Call;
use crate::config::{TcpConfig, TcpFraming};
use crate::handshake::{Handshake, HandshakeFailure, is_reset, unanswered};
use crate::identity::Hello;
use crate::receiving::{Receiving, Sink};
use crate::route::Route;
use crate::sending::Sending;
use crate::session::{TcpSession, TcpView};
use crate::socket::Socket;
use crate::tap::Tap;

/// Time for the peer to close its side after ours. By then it has acknowledged all of our data. Chosen by us: a higher
/// value keeps a connection to a silent peer for longer.
const CLOSING: Duration = Duration::from_secs(2);
/// Time after a connection was accepted within which a reset means that the listener is busy: a round trip on any path.
/// Chosen by us: a higher value takes later resets for a busy listener.
const REFUSAL: Duration = Duration::from_secs(2);
/// Polling interval while data is unacknowledged: to learn of acknowledgements, and of room in the kernel that it did
/// not signal. Chosen by us: a higher value costs less time and notices them later.
const LOOK: Duration = Duration::from_millis(10);

/// Polling interval when idle, to keep statistics current. Chosen by us: a higher value costs less time and shows older
/// figures.
const IDLE_LOOK: Duration = Duration::from_millis(200);

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    socket: Socket,
    session: S,
    clock: fn() -> Instant,
    config: TcpConfig,
    state: State,
    counts: Statistics,
    view: TcpView,
    /// Source address of another uplink than the route's own.
    uplink: Option<IpAddr>,
    /// Flow of the Congestion Manager, if it has one.
    flow: Option<FlowId>,
    /// Until when a reset means that the listener is busy; `None` if it cannot mean that.
    refusable_until: Option<Instant>,
    /// Credential of a call until it is answered; `None`: the stream is plain.
    credential: Option<CallerCredential>,
    /// Bytes that the handshake has sent.
    handshake_len: u64,
    /// The peer has closed its direction, and the stream goes on.
    is_half_closed: bool,
}

#[derive(Debug)]
enum State {
    /// Deadline for the answer.
    Calling(Instant),
    /// Deadline for the agreement on keys.
    Handshaking(Instant, Box<Handshake>),
    Open(Box<Both>),
    /// All data is acknowledged. Deadline for the peer's close.
    Closing(Instant, Box<Both>),
    Over,
}

#[derive(Debug)]
struct Both {
    sending: Sending,
    receiving: Receiving,
}

impl<S: TcpSession> Connection<S> {
    /// Connects by a route; with a `credential`, the stream is encrypted.
    pub(crate) fn call(
        now: Instant,
        clock: fn() -> Instant,
        route: Route,
        session: S,
        (config, credential): (TcpConfig, Option<CallerCredential>),
    ) -> io::Result<Self> {
        let socket = Socket::call(route.local, route.remote)?;
        session.set_peer(route.remote);
        let until = now + config.connect_timeout;
        let connection = Self::new(clock, socket, session, config, route.uplink);
        Ok(Self { state: State::Calling(until), refusable_until: Some(until), credential, ..connection })
    }

    fn new(clock: fn() -> Instant, socket: Socket, session: S, config: TcpConfig, uplink: Option<IpAddr>) -> Self {
        // The stream may have been carried over DCCP before: its counters go on.
        let counts = session.statistics();
        let (state, view) = (State::Over, TcpView::default());
        Self {
            socket,
            session,
            clock,
            config,
            state,
            counts,
            view,
            uplink,
            flow: None,
            refusable_until: None,
            credential: None,
            handshake_len: 0,
            is_half_closed: false,
        }
    }

    /// Continues a stream over an answered connection: its listener is told by `hello`.
    pub(crate) fn moved(
        now: Instant,
        clock: fn() -> Instant,
        call: Call,
        session: S,
        (config, hello): (TcpConfig, &Hello),
    ) -> Self {
        let uplink = call.uplink;
        let (socket, agreed) = call.into_parts();
        let mut connection = Self::new(clock, socket, session, config, uplink);
        match agreed {
            None => connection.open(now, None, &[]),
            Some((agreed, sent)) => {
                connection.handshake_len = sent;
                connection.open(now, Some(&agreed.secrets), &agreed.rest);
            }
        }
        if let State::Open(both) = &mut connection.state {
            connection.refusable_until = Some(now + REFUSAL);
            both.sending.say(hello);
        }
        connection
    }

    /// Takes over an accepted connection of which some bytes were `heard`, behind the handshake if there are `secrets`.
    pub(crate) fn adopted(
        now: Instant,
        clock: fn() -> Instant,
        socket: Socket,
        session: S,
        config: TcpConfig,
        (secrets, heard): (Option<&Secrets>, &[u8]),
    ) -> Self {
        let mut connection = Self::new(clock, socket, session, config, None);
        connection.open(now, secrets, heard);
        connection
    }

    pub(crate) fn id(&self) -> StreamId {
        self.session.id()
    }

    /// Returns its flow of the Congestion Manager, if any, to be closed when the connection is over.
    pub(crate) fn flow(&self) -> Option<FlowId> {
        self.flow
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Requests a close once the fate of every datagram is known.
    pub(crate) fn finish(&mut self) {
        self.session.sending().finish();
    }

    /// Sets the source's rate.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.session.sending().set_rate(rate);
    }

    /// Closes the connection: the application dropped the stream, or the engine ends.
    pub(crate) fn abandon(&mut self, now: Instant) {
        if let State::Open(both) = &mut self.state
            && let Err(error) = both.sending.say_end(&self.socket)
        {
            tracing::debug!(%error, "a TCP connection ends without a word");
        }
        self.close(now, CloseReason::Local);
    }

    /// Resets an incoming connection that the application refuses.
    pub(crate) fn refuse(&mut self, now: Instant) {
        self.socket.reset_when_closed();
        self.close(now, CloseReason::Local);
    }

    /// Begins the handshake of an answered call, or the stream if it is not encrypted.
    fn answered(&mut self, now: Instant) {
        let State::Calling(until) = self.state else { return };
        let Some(credential) = self.credential.take() else { return self.open(now, None, &[]) };
        match timeous_seal::Session::call(&credential) {
            Ok(session) => {
                self.state = State::Handshaking(until, Box::new(Handshake::new(session)));
                self.shake_hands(now);
            }
            Err(error) => self.unsealed(now, error),
        }
    }

    /// Goes on with the handshake.
    fn shake_hands(&mut self, now: Instant) {
        let State::Handshaking(_, handshake) = &mut self.state else { return };
        let advanced = handshake.advance(&mut self.socket);
        self.handshake_len = handshake.sent();
        match advanced {
            Ok(None) => {}
            Ok(Some(agreed)) => self.open(now, Some(&agreed.secrets), &agreed.rest),
            Err(failure) => self.disagree(now, failure),
        }
    }

    fn disagree(&mut self, now: Instant, failure: HandshakeFailure) {
        match failure {
            HandshakeFailure::Seal(error) => self.unsealed(now, error),
            HandshakeFailure::Socket(error) => self.fail(now, &error),
        }
    }

    /// Ends the stream: its ends cannot agree on keys.
    fn unsealed(&mut self, now: Instant, error: SealError) {
        tracing::debug!(%error, "a TCP handshake has failed");
        self.report(now, true);
        self.session.fail(error);
        self.state = State::Over;
    }

    /// Begins the stream, of which some bytes were `heard`; with `secrets`, it is encrypted.
    fn open(&mut self, now: Instant, secrets: Option<&Secrets>, heard: &[u8]) {
        if let Ok(peer) = self.socket.peer() {
            self.session.set_peer(peer);
        }
        // Only records can be encrypted: nothing leaves in the clear because of a wrong setting.
        let is_possible = secrets.is_none() || self.config.framing == TcpFraming::Records;
        let settings = if is_possible { Ok(()) } else { Err(io::ErrorKind::InvalidInput.into()) };
        let ready = settings.and_then(|()| self.socket.set_up(self.config.silence)).and_then(|()| {
            let sending = Sending::new(self.clock, (&self.config, self.uplink), &self.socket, secrets)?;
            Ok((sending, Receiving::new(&self.config, &self.socket, secrets)?))
        });
        let taken = match ready {
            Ok((mut sending, mut receiving)) => {
                // An encrypted peer has answered; the kernel of a plain one acknowledges data before the listener has refused them.
                if secrets.is_none() && self.refusable_until.is_some() {
                    sending.fates.withhold();
                }
                self.refusable_until = self.refusable_until.map(|_| now + REFUSAL);
                self.session.handle_event(now, Event::Connected);
                let taken =
                    receiving.take_in(heard, &mut Sink { now, session: &mut self.session, counts: &mut self.counts });
                self.state = State::Open(Box::new(Both { sending, receiving }));
                taken
            }
            // The socket's own error explains the failure better than that of the call.
            Err(error) => {
                // The kernel has acknowledged data that no stream gets: an orderly close would hide that.
                self.socket.reset_when_closed();
                Err(self.socket.take_error().err().unwrap_or(error))
            }
        };
        if let Err(error) = taken {
            self.fail(now, &error);
        }
    }

    fn fail(&mut self, now: Instant, error: &io::Error) {
        tracing::debug!(%error, "a TCP connection has failed");
        let is_refused = is_reset(error) && self.is_refusable(now);
        self.close(
            now,
            match is_refused {
                // It had closed its whole socket.
                _ if self.is_half_closed && is_reset(error) => CloseReason::Peer,
                true => reset(ResetCode::TooBusy),
                false => reason(error),
            },
        );
    }

    /// Returns whether a reset means that the listener is busy. TCP has no signal for that, so our listener accepts and resets, after
    /// reading a hello at most.
    fn is_refusable(&self, now: Instant) -> bool {
        let hello_and_syn = Hello::record_len(self.handshake_len > 0) as u64 + 1;
        self.refusable_until.is_some_and(|until| now < until)
            && self.counts.data_received == 0
            && self.socket.info().is_ok_and(|info| info.acknowledged() <= hello_and_syn + self.handshake_len)
    }

    fn close(&mut self, now: Instant, reason: CloseReason) {
        if let State::Open(both) = &mut self.state {
            let (sending, source) = (&mut both.sending, self.session.sending().source());
            if matches!(reason, CloseReason::Reset(_)) {
                sending.fates.refuse(source);
            } else {
                // The last acknowledgements may have come with the peer's end. A socket that has failed tells of none.
                let _told = sending.take_notices(&self.socket);
                let _settled = sending.settle(now, &self.socket, source, &mut self.counts);
                sending.fates.release(source, &mut self.counts);
            }
            sending.end(source);
        }
        self.report(now, true);
        self.session.handle_event(now, Event::Closed { reason });
        self.state = State::Over;
    }

    /// Reads and delivers incoming data.
    pub(crate) fn receive(&mut self, now: Instant) {
        if self.is_half_closed {
            // Nothing but the failure of the connection can come.
            return if let Err(error) = self.socket.take_error() {
                self.fail(now, &error);
            };
        }
        let sink = Sink { now, session: &mut self.session, counts: &mut self.counts };
        let (receiving, end) = match &mut self.state {
            State::Open(both) => (&mut both.receiving, CloseReason::Peer),
            State::Closing(_, both) => (&mut both.receiving, CloseReason::Local),
            State::Handshaking(..) => return self.shake_hands(now),
            State::Calling(_) | State::Over => return,
        };
        match receiving.receive(&mut self.socket, sink) {
            Ok(false) => {}
            Ok(true) if end == CloseReason::Peer && self.outlives_peer() => {
                self.is_half_closed = true;
                self.session.peer_ended();
            }
            Ok(true) => self.close(now, end),
            // If all of our data was acknowledged, an unorderly close by the peer is no failure.
            Err(_) if end == CloseReason::Local => self.close(now, end),
            Err(error) => self.fail(now, &error),
        }
    }

    fn outlives_peer(&self) -> bool {
        self.config.half_close && self.config.framing == TcpFraming::None
    }

    /// Handles expired timers.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        match &self.state {
            State::Calling(until) if now >= *until => self.close(now, CloseReason::Timeout),
            State::Handshaking(until, _) if now >= *until => self.unsealed(now, SealError::NoAnswer),
            State::Closing(until, _) if now >= *until => self.close(now, CloseReason::Local),
            // The kernel itself waits as long as the peer answers window probes.
            State::Open(both) if both.sending.stalled_since().is_some_and(|at| now > at + self.config.silence) => {
                self.close(now, CloseReason::Timeout);
            }
            _ => {}
        }
    }

    /// Sends as much as possible; returns whether there was progress.
    pub(crate) fn drain(&mut self, now: Instant, manager: &mut Manager) -> bool {
        match &mut self.state {
            State::Calling(_) => self.look_for_answer(now),
            State::Open(both) => {
                let done = both.sending.advance(now, &self.socket, self.session.sending(), &mut self.counts, manager);
                self.flow = both.sending.flow();
                match done {
                    Ok(progress) => self.shut_if_done(now) || progress || self.session.sending().stop_polling(),
                    Err(error) => {
                        self.fail(now, &error);
                        true
                    }
                }
            }
            State::Closing(_, both) => {
                // The kernel's last completion notices: left unread, they would keep the socket ready.
                let source = self.session.sending().source();
                let heard = both.sending.take_notices(&self.socket);
                let heard = heard.and_then(|()| both.sending.settle(now, &self.socket, source, &mut self.counts));
                if heard.is_err() {
                    self.close(now, CloseReason::Local);
                }
                false
            }
            State::Handshaking(..) | State::Over => false,
        }
    }

    fn look_for_answer(&mut self, now: Instant) -> bool {
        match self.socket.take_error() {
            Err(error) if self.credential.is_some() => self.disagree(now, unanswered(error)),
            Err(error) => self.fail(now, &error),
            Ok(()) if self.socket.peer().is_ok() => self.answered(now),
            Ok(()) => return false,
        }
        true
    }

    /// Shuts down the sending side when all data has arrived.
    fn shut_if_done(&mut self, now: Instant) -> bool {
        let done = self.session.sending().is_finished(now);
        let State::Open(both) = &mut self.state else { return false };
        if !done || !both.sending.is_empty() {
            return false;
        }
        match both.sending.say_end(&self.socket) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                self.fail(now, &error);
                return true;
            }
        }
        self.report(now, true);
        self.socket.shut();
        if self.is_half_closed {
            self.close(now, CloseReason::Local);
        } else if let State::Open(both) = std::mem::replace(&mut self.state, State::Over) {
            self.state = State::Closing(now + CLOSING, both);
        }
        true
    }

    /// Wakes the application once for all that has happened.
    pub(crate) fn wake_application(&mut self, now: Instant) {
        self.report(now, false);
        self.session.end_round(now);
    }

    fn report(&mut self, now: Instant, last: bool) {
        if let State::Open(both) = &self.state {
            let sending = &both.sending;
            let (tapped, early) = both.receiving.tapped();
            self.view = TcpView {
                reach: sending.reach(),
                replaced: sending.replaced,
                padded: sending.padded,
                unchanged: sending.unchanged,
                stalled: sending.stalled_since().is_some(),
                tapped,
                early,
                longest: sending.one_segment(),
            };
            self.session.sending().set_path(sending.path());
        }
        self.session.set_view(self.view);
        self.session.report(now, &self.counts, last);
    }

    /// Returns the socket.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns the events of the socket that it waits for.
    pub(crate) fn interest(&self) -> EventFlags {
        match &self.state {
            State::Calling(_) => EventFlags::OUT,
            State::Handshaking(_, handshake) if handshake.wants_write() => EventFlags::IN | EventFlags::OUT,
            // The end of what is received stays readable.
            State::Open(both) if self.is_half_closed && both.sending.is_blocked() => EventFlags::OUT,
            State::Open(_) if self.is_half_closed => EventFlags::empty(),
            State::Open(both) if both.sending.is_blocked() => EventFlags::IN | EventFlags::OUT,
            State::Handshaking(..) | State::Open(_) | State::Closing(..) => EventFlags::IN,
            State::Over => EventFlags::empty(),
        }
    }

    /// Returns the packet tap, if there is one.
    pub(crate) fn tap(&self) -> Option<&Tap> {
        let (State::Open(both) | State::Closing(_, both)) = &self.state else { return None };
        both.receiving.tap()
    }

    /// Returns the time of the next timer.
    pub(crate) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let own = match &self.state {
            State::Calling(until) | State::Handshaking(until, _) | State::Closing(until, _) => Some(*until),
            State::Open(both) => {
                Some(both.sending.poll_timeout(now, LOOK).map_or(now + IDLE_LOOK, |at| at.min(now + IDLE_LOOK)))
            }
            State::Over => None,
        };
        own.into_iter().chain(self.session.sending().poll_timeout()).chain(self.session.poll_timeout()).min()
    }
}

/// Maps an error to the close reason that all transports share.
fn reason(error: &io::Error) -> CloseReason {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => CloseReason::Unreachable,
        // From `Receiving`: the peer takes encrypted streams only.
        io::ErrorKind::InvalidData => reset(ResetCode::Unencrypted),
        _ if is_reset(error) => reset(ResetCode::NoConnection),
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            CloseReason::Timeout
        }
        _ => CloseReason::Abandoned,
    }
}

fn reset(code: ResetCode) -> CloseReason {
    CloseReason::Reset(ResetReason::plain(code))
}
