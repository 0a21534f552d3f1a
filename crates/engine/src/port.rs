//! A UDP port, or an address of DCCP without UDP: its socket, its DCCP endpoint, and its streams.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use timeous_cm::{FlowId, Manager};
use timeous_core::{AduSource, Instant, Misuse, NoAdus, Rate, Rng};
use timeous_dccp::{CloseReason, ConnectionId, Endpoint, EndpointConfig, Event, ResetCode, Route, Sources};
use timeous_ring::Payload;

use crate::batch::{Batch, Payloads};
use crate::carrier::Carrier;
use crate::clock;
use crate::command::{ListenerId, Made, PortLife, User};
use crate::config::StreamConfig;
use crate::error::EngineError;
use crate::identity::Identity;
use crate::listening::Listening;
use crate::order::StreamId;
use crate::session::{PASS_INTERVAL, Session};
use crate::streams::Streams;
use crate::udp::{Reservation, Socket, Way};

pub(crate) struct Port {
    life: Arc<()>,
    /// Per-connection life handles, for a raw socket, which outlives its streams.
    lives: BTreeMap<ConnectionId, Arc<()>>,
    socket: Socket,
    endpoint: Endpoint,
    sessions: Sessions,
    /// Listeners by DCCP port, which is reserved where there is no UDP port. A UDP port has one at most.
    listening: BTreeMap<u16, (Listening, Option<Reservation>)>,
    /// Packets being sent; between calls, those that the kernel had no room for.
    batch: Batch,
    /// Whether some session has queued data that may not be sent yet.
    waits: bool,
    /// Treatment of ICMP "port unreachable" before a connection attempt is answered.
    refusals: Refusals,
}

/// Treatment of ICMP messages "port unreachable".
enum Refusals {
    /// Ignored: the connection is open, or came in (RFC 5927).
    Ignored,
    /// Ends the connection attempt.
    End,
    /// Kept, as the stream may go on over TCP: destination and quoted packet of the last message.
    Kept(Option<(SocketAddr, Vec<u8>)>),
}

#[derive(Default)]
struct Sessions {
    by_connection: BTreeMap<ConnectionId, Session>,
    /// Empty source, for a connection without a stream.
    nothing: NoAdus,
    /// Number of packets for which the batch has room.
    room: u32,
}

impl Sources for Sessions {
    fn source(&mut self, id: ConnectionId) -> &mut dyn AduSource {
        match self.by_connection.get_mut(&id) {
            Some(session) => {
                session.source.inner_mut().has_room_for(self.room);
                &mut session.source
            }
            None => &mut self.nothing,
        }
    }
}

impl Payloads for Sessions {
    fn payload(&self, connection: ConnectionId, token: u64) -> Option<Payload<'_>> {
        self.by_connection.get(&connection)?.payload(token)
    }

    fn sent(&mut self, connection: ConnectionId, token: u64) {
        if let Some(session) = self.by_connection.get_mut(&connection) {
            session.sent(token);
        }
    }

    fn expired(&mut self, connection: ConnectionId, token: u64) {
        if let Some(session) = self.by_connection.get_mut(&connection) {
            session.expired(token);
        }
    }
}

impl Port {
    /// Creates a port without streams.
    pub(crate) fn new(socket: Socket, rng: &mut Rng) -> Self {
        let endpoint = Endpoint::new(EndpointConfig::default(), rng.fork());
        let (sessions, batch) = (Sessions::default(), Batch::default());
        let (life, lives, listening) = (Arc::new(()), BTreeMap::new(), BTreeMap::new());
        Self { life, lives, socket, endpoint, sessions, listening, batch, waits: false, refusals: Refusals::Ignored }
    }

    /// Returns a handle that tells whether the port exists.
    pub(crate) fn life(&self) -> PortLife {
        PortLife::of(&self.life)
    }

    pub(crate) fn local_addr(&self) -> Result<SocketAddr, EngineError> {
        Ok(self.socket.local_addr()?)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Returns whether the kernel had no room for the last packets.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.batch.is_empty()
    }

    /// Returns whether the port is unused.
    pub(crate) fn is_idle(&self) -> bool {
        self.listening.is_empty()
            && self.sessions.by_connection.is_empty()
            && self.endpoint.connections().next().is_none()
    }

    /// Returns its streams.
    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.sessions.by_connection.values().map(|session| session.id)
    }

    pub(crate) fn has(&self, id: StreamId) -> bool {
        self.connection(id).is_some()
    }

    fn connection(&self, id: StreamId) -> Option<ConnectionId> {
        self.sessions.by_connection.iter().find(|(_, session)| session.id == id).map(|(&connection, _)| connection)
    }

    pub(crate) fn connect(
        &mut self,
        now: Instant,
        (remote, user): (SocketAddr, User),
        config: &StreamConfig,
        streams: &mut Streams,
    ) -> Result<Made, EngineError> {
        let route = match self.native() {
            Some(local) => Route::native(local, remote),
            None => remote.into(),
        };
        // A raw socket is shared with other streams.
        let life = if self.native().is_some() { Arc::new(()) } else { self.life.clone() };
        let (session, stream) = streams.make(user, config, PortLife::of(&life))?;
        session.set_peer(remote);
        let settings = config.dccp();
        let id = self.endpoint.connect_with(now, route, config.dccp_port, config.service, settings)?;
        if self.native().is_none() {
            self.socket.report_refusals(true)?;
            self.refusals = if config.carrier == Carrier::Auto { Refusals::Kept(None) } else { Refusals::End };
        }
        self.sessions.by_connection.insert(id, session);
        self.lives.insert(id, life);
        Ok(stream)
    }

    /// Returns the address of a port without UDP.
    pub(crate) fn native(&self) -> Option<IpAddr> {
        if self.socket.is_raw() { self.socket.local_addr().ok().map(|local| local.ip()) } else { None }
    }

    pub(crate) fn listen(&mut self, listening: Listening, reservation: Option<Reservation>) {
        let config = &listening.config;
        self.endpoint.listen_with(config.dccp_port, &[config.service], config.dccp());
        self.listening.insert(config.dccp_port, (listening, reservation));
    }

    pub(crate) fn stop_listening(&mut self, id: ListenerId) {
        let endpoint = &mut self.endpoint;
        self.listening.retain(|&port, (listening, _)| {
            if listening.id == id {
                endpoint.stop_listening(port);
                listening.incoming.refuse_all();
            }
            listening.id != id
        });
    }

    pub(crate) fn notify(&mut self, id: StreamId) {
        if let Some(connection) = self.connection(id) {
            self.endpoint.wake(connection);
        }
    }

    pub(crate) fn finish(&mut self, id: StreamId) {
        if let Some(connection) = self.connection(id)
            && let Some(session) = self.sessions.by_connection.get_mut(&connection)
        {
            session.finishing = true;
            self.endpoint.wake(connection);
        }
    }

    /// Returns the number of packets received for a stream, and whether it is open; `None`: unknown stream.
    pub(crate) fn heard(&self, id: StreamId) -> Option<(u64, bool)> {
        let connection = self.endpoint.connection(self.connection(id)?)?;
        Some((connection.statistics().packets_received, connection.flow().is_some()))
    }

    /// Returns the identity of a stream's connection, which only its two ends know.
    pub(crate) fn identity(&self, id: StreamId) -> Option<Identity> {
        let connection = self.endpoint.connection(self.connection(id)?)?;
        let (sent, received) = connection.initial_sequence_numbers();
        Some(Identity { caller: sent.value(), listener: received?.value() })
    }

    /// Returns the incoming stream whose connection has this identity.
    pub(crate) fn identified(&self, identity: Identity) -> Option<StreamId> {
        let among = |(&id, session): (&ConnectionId, &Session)| {
            let (sent, received) = self.endpoint.connection(id)?.initial_sequence_numbers();
            let own = Identity { caller: received?.value(), listener: sent.value() };
            own.is_seen_as(identity).then_some(session.id)
        };
        self.sessions.by_connection.iter().find_map(among)
    }

    /// Removes a stream that moves to another transport: its connection ends, and data in flight is lost.
    pub(crate) fn take(&mut self, now: Instant, id: StreamId) -> Option<Session> {
        let connection = self.connection(id)?;
        let mut session = self.sessions.by_connection.remove(&connection)?;
        self.close(now, connection);
        session.carrier_gone();
        Some(session)
    }

    /// Stops receiving: the application dropped the receiving half.
    pub(crate) fn ignore(&mut self, id: StreamId) {
        if let Some(connection) = self.connection(id) {
            self.endpoint.stop_receiving(connection);
        }
    }

    pub(crate) fn set_rate(&mut self, id: StreamId, rate: Rate) {
        if let Some(session) = self.sessions.by_connection.values_mut().find(|session| session.id == id) {
            session.set_rate(rate);
        }
    }

    /// Removes a stream that the application dropped, with its queued data.
    pub(crate) fn abandon(&mut self, now: Instant, id: StreamId) {
        if let Some(connection) = self.connection(id)
            && let Some(mut session) = self.sessions.by_connection.remove(&connection)
        {
            session.close(CloseReason::Local);
            self.close(now, connection);
        }
    }

    /// Refuses an incoming stream as busy.
    pub(crate) fn refuse(&mut self, now: Instant, id: StreamId) {
        if let Some(connection) = self.connection(id)
            && let Some(mut session) = self.sessions.by_connection.remove(&connection)
        {
            session.close(CloseReason::Local);
            self.turn_away(now, connection);
        }
    }

    fn turn_away(&mut self, now: Instant, connection: ConnectionId) {
        if let Err(error) = self.endpoint.abort(now, connection, ResetCode::TooBusy) {
            tracing::debug!(%error, "refusing");
        }
    }

    /// Closes a connection that has no stream any more.
    fn close(&mut self, now: Instant, connection: ConnectionId) {
        if let Err(error) = self.endpoint.close(now, connection) {
            tracing::debug!(%error, "closing");
        }
    }

    pub(crate) fn close_all(&mut self, now: Instant) {
        let connections: Vec<_> = self.endpoint.connections().collect();
        for session in self.sessions.by_connection.values_mut() {
            session.close(CloseReason::Local);
        }
        for connection in connections {
            self.close(now, connection);
        }
    }

    /// Returns whether the host of a connection attempt has no such UDP port.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(self.refusals, Refusals::Kept(Some(_)))
    }

    /// Ends a refused connection attempt: TCP is no alternative.
    pub(crate) fn give_in(&mut self, now: Instant) {
        if let Refusals::Kept(Some((remote, quoted))) = std::mem::replace(&mut self.refusals, Refusals::End) {
            kept(self.endpoint.port_unreachable(now, remote, &quoted));
        }
    }

    fn hear_refusals(&mut self, now: Instant) {
        let (endpoint, refusals) = (&mut self.endpoint, &mut self.refusals);
        self.socket.receive_refusals(|remote, quoted| match refusals {
            Refusals::Ignored => {}
            Refusals::End => kept(endpoint.port_unreachable(now, remote, quoted)),
            Refusals::Kept(last) => *last = Some((remote, quoted.to_vec())),
        });
    }

    fn ignore_refusals(&mut self) {
        if !matches!(self.refusals, Refusals::Ignored) {
            self.refusals = Refusals::Ignored;
            if let Err(error) = self.socket.report_refusals(false) {
                tracing::debug!(%error, "ICMP messages go on being told");
            }
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, cm: &mut Manager) {
        if !matches!(self.refusals, Refusals::Ignored) {
            self.hear_refusals(now);
        }
        self.tell_rooms();
        for (&port, (listening, _)) in &self.listening {
            self.endpoint.set_room(port, Some(listening.incoming.room()));
        }
        let endpoint = &mut self.endpoint;
        loop {
            let more = self.socket.receive(|Way { from, to }, ecn, datagram| {
                let route = to.map_or_else(|| from.into(), |to| Route::native(to, from));
                kept(endpoint.handle_datagram(now, cm, route, datagram, ecn));
            });
            match more {
                Ok(true) => {}
                Ok(false) => break,
                // An ICMP error of an earlier packet. The connection's own timers handle it.
                Err(error) => tracing::debug!(%error, "receiving"),
            }
        }
    }

    /// Reports the free receive buffer to the transports of slow readers, and of those that were slow. Data received within one round uses
    /// the room at its beginning, or drops older data.
    fn tell_rooms(&mut self) {
        for (&connection, session) in &mut self.sessions.by_connection {
            if let Some((room, is_slow)) = session.new_room() {
                self.endpoint.set_receive_room(connection, room, is_slow);
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        kept(self.endpoint.handle_timeout(now, cm));
    }

    pub(crate) fn granted(&mut self, flow: FlowId) {
        self.endpoint.granted(flow);
    }

    /// Sends and processes events until there is no more progress; returns whether there was any.
    pub(crate) fn drain(&mut self, now: Instant, cm: &mut Manager, streams: &mut Streams) -> bool {
        let mut progress = self.transmit(now, cm);
        while let Some((connection, event)) = self.endpoint.poll_event() {
            progress = true;
            self.handle_event(now, cm, connection, event, streams);
        }
        let endpoint = &self.endpoint;
        self.lives.retain(|&connection, _| endpoint.connection(connection).is_some());
        progress | self.look_after_sources(now)
    }

    /// Closes streams with nothing left to send, and requests a notification from empty rings.
    fn look_after_sources(&mut self, now: Instant) -> bool {
        let mut drained = Vec::new();
        let mut progress = false;
        for (&connection, session) in &mut self.sessions.by_connection {
            if session.finishing && !session.closed && session.is_drained(now) {
                session.finishing = false;
                drained.push(connection);
            } else if session.stop_polling() {
                self.endpoint.wake(connection);
                progress = true;
            }
        }
        for &connection in &drained {
            self.close(now, connection);
        }
        progress || !drained.is_empty()
    }

    /// Pulls and sends as many packets as allowed now. While packets wait for the kernel, none are pulled.
    fn transmit(&mut self, now: Instant, cm: &mut Manager) -> bool {
        let mut progress = false;
        loop {
            // On a busy machine the round may have begun long ago: deadlines apply to the instant of sending.
            if !self.batch.send(clock::now().max(now), &mut self.socket, &mut self.sessions) {
                return progress;
            }
            self.pull(now, cm);
            if self.batch.is_empty() {
                return progress;
            }
            progress = true;
        }
    }

    fn pull(&mut self, now: Instant, cm: &mut Manager) {
        while self.batch.has_room() {
            self.sessions.room = self.batch.room();
            let polled = self.endpoint.poll_transmit(now, cm, &mut self.sessions, self.batch.buffer());
            match kept(polled) {
                Some(outgoing) => self.batch.add(&outgoing),
                None => return,
            }
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        cm: &Manager,
        connection: ConnectionId,
        event: Event,
        streams: &mut Streams,
    ) {
        match event {
            Event::Incoming { port, .. } => self.take_in(now, connection, port, streams),
            Event::Moved { from, to } => tracing::info!(%from, %to, "a peer has another address"),
            Event::Connected => self.ignore_refusals(),
            // The final report, before the application learns of the end.
            Event::Closed { .. } => self.report(now, cm, connection, true),
            _ => {}
        }
        // Lost data may be retransmitted.
        if let Event::Lost { .. } | Event::Overdue { .. } = event {
            self.endpoint.wake(connection);
        }
        if let Some(session) = self.sessions.by_connection.get_mut(&connection) {
            session.handle_event(now, event);
        }
    }

    /// Creates a stream for an incoming connection, or refuses it as busy.
    fn take_in(&mut self, now: Instant, connection: ConnectionId, port: u16, streams: &mut Streams) {
        // An incoming TCP connection may have taken the last place.
        let listening = self.listening.get(&port).filter(|(listening, _)| listening.incoming.room() > 0);
        let Some((listening, _)) = listening else { return self.turn_away(now, connection) };
        match streams.make(listening.user, &listening.config, PortLife::default()) {
            Ok((session, stream)) => {
                if let Some(peer) = self.endpoint.remote(connection) {
                    session.set_peer(peer);
                }
                self.sessions.by_connection.insert(connection, session);
                listening.incoming.push(stream);
            }
            Err(error) => {
                tracing::warn!(%error, "no stream for a caller");
                self.turn_away(now, connection);
            }
        }
    }

    /// Wakes the applications once for all that has happened.
    pub(crate) fn wake_applications(&mut self, now: Instant, cm: &Manager) {
        self.waits = false;
        for session in self.sessions.by_connection.values_mut() {
            self.waits |= session.pass_expired(now);
        }
        let connections: Vec<_> = self.sessions.by_connection.keys().copied().collect();
        for connection in connections {
            self.report(now, cm, connection, false);
            if let Some(session) = self.sessions.by_connection.get_mut(&connection) {
                session.advise(now);
                session.wake();
            }
        }
    }

    fn report(&mut self, now: Instant, cm: &Manager, connection: ConnectionId, last: bool) {
        let Some(state) = self.endpoint.connection(connection) else { return };
        let mut path = state.flow().and_then(|flow| cm.query(flow).ok());
        // Until data are acknowledged, the handshake tells the round trip.
        if let Some(path) = path.as_mut().filter(|path| path.srtt.is_none()) {
            (path.srtt, path.min_rtt) = (state.handshake_rtt(), state.handshake_rtt());
        }
        if let Some(session) = self.sessions.by_connection.get_mut(&connection) {
            session.report(now, *state.statistics(), path, last);
        }
    }

    /// Returns the time of the next timer. While the kernel has no room, the socket is polled instead.
    pub(crate) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let expiry = self.waits.then_some(now + PASS_INTERVAL);
        let timeout = if self.is_blocked() { None } else { kept(self.endpoint.poll_timeout()) };
        let watch = self.sessions.by_connection.values_mut().filter_map(Session::poll_watch);
        watch.chain(expiry).chain(timeout).min()
    }
}

/// Unwraps the result of a transport call: the engine keeps the driving order.
fn kept<T>(result: Result<T, Misuse>) -> T {
    result.expect("the engine keeps the driving order, and its clock does not go back")
}

#[cfg(test)]
mod tests;
