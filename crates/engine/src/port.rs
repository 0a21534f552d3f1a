//! A UDP port, or an address of DCCP without UDP: its socket, its DCCP endpoint, and its streams.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use timeous_cm::{FlowId, Manager};
use timeous_core::{Instant, Misuse, Rng};
use timeous_dccp::{CloseReason, ConnectionId, Endpoint, EndpointConfig, Event, ResetCode, Route};

use crate::batch::Batch;
use crate::callers::Callers;
use crate::carrier::Carrier;
use crate::clock;
use crate::command::{ListenerId, Made, PortLife, User};
use crate::config::StreamConfig;
use crate::error::EngineError;
use crate::identity::Identity;
use crate::listening::Listening;
use crate::order::{Order, StreamId};
use crate::session::Session;
use crate::sessions::Sessions;
use crate::streams::Streams;
use crate::udp::{Reservation, Socket, Way};

pub(crate) struct Port {
    /// Number among the engine's ports.
    number: u64,
    life: Arc<()>,
    /// Life handles of this end's calls: the port is shared, and outlives them.
    lives: BTreeMap<ConnectionId, Arc<()>>,
    /// Connections that end, whose life handles go with them.
    ending: BTreeSet<ConnectionId>,
    socket: Socket,
    endpoint: Endpoint,
    sessions: Sessions,
    /// Listeners by DCCP port, which is reserved where there is no UDP port. A UDP port has one at most.
    listening: BTreeMap<u16, (Listening, Option<Reservation>)>,
    /// Packets being sent; between calls, those that the kernel had no room for.
    batch: Batch,
    /// This end's connection attempts.
    callers: Callers,
    /// Streams whose reader is slow, and whose transport knows.
    slow: BTreeSet<ConnectionId>,
}

impl Port {
    /// Creates a port without streams.
    pub(crate) fn new(number: u64, socket: Socket, rng: &mut Rng) -> Self {
        Self {
            number,
            life: Arc::new(()),
            lives: BTreeMap::new(),
            ending: BTreeSet::new(),
            socket,
            endpoint: Endpoint::new(EndpointConfig::default(), rng.fork()),
            sessions: Sessions::default(),
            listening: BTreeMap::new(),
            batch: Batch::default(),
            callers: Callers::default(),
            slow: BTreeSet::new(),
        }
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
        self.listening.is_empty() && self.sessions.is_empty() && self.endpoint.connections().next().is_none()
    }

    pub(crate) fn has(&self, id: StreamId) -> bool {
        self.sessions.connection(id).is_some()
    }

    pub(crate) fn connect(
        &mut self,
        now: Instant,
        (remote, user): (SocketAddr, User),
        config: &StreamConfig,
        streams: &mut Streams,
    ) -> Result<(StreamId, Made), EngineError> {
        let route = match self.native() {
            Some(local) => Route::native(local, remote),
            None => remote.into(),
        };
        let connection = self.endpoint.connect_with(now, route, config.dccp_port, config.service, config.dccp())?;
        let life = Arc::new(());
        let (session, stream) = match streams.make(user, config, PortLife::of(&life)) {
            Ok(made) => made,
            Err(error) => {
                self.close(now, connection);
                return Err(error);
            }
        };
        if self.native().is_none() {
            if self.callers.is_empty() {
                self.socket.report_refusals(true)?;
            }
            self.callers.insert(connection, config.carrier == Carrier::Auto);
        }
        session.set_peer(remote);
        let id = session.id;
        streams.place(id, self.number);
        self.sessions.insert(connection, session);
        self.lives.insert(connection, life);
        Ok((id, stream))
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

    /// Carries out a stream's request.
    pub(crate) fn obey(&mut self, now: Instant, id: StreamId, order: Order) {
        let Some(connection) = self.sessions.connection(id) else { return };
        match order {
            Order::Notify => {
                self.sessions.touch(connection);
                self.endpoint.wake(connection);
            }
            Order::Finish => {
                if let Some(session) = self.sessions.get_mut(connection) {
                    session.sending.finish();
                }
                self.endpoint.wake(connection);
            }
            // The application dropped the receiving half.
            Order::Ignore => self.endpoint.stop_receiving(connection),
            // The application dropped the stream, with its queued data.
            Order::Abandon => {
                if let Some(mut session) = self.sessions.remove(connection) {
                    session.close(CloseReason::Local);
                    self.close(now, connection);
                }
            }
            Order::Refuse => {
                if let Some(mut session) = self.sessions.remove(connection) {
                    session.close(CloseReason::Local);
                    self.turn_away(now, connection);
                }
            }
            Order::Rate(rate) => {
                if let Some(session) = self.sessions.get_mut(connection) {
                    session.sending.set_rate(rate);
                }
            }
            // The end of the round takes the snapshot.
            Order::Tell => self.sessions.touch(connection),
        }
    }

    /// Returns the number of packets received for a stream, and whether it is open; `None`: unknown stream.
    pub(crate) fn heard(&self, id: StreamId) -> Option<(u64, bool)> {
        let connection = self.endpoint.connection(self.sessions.connection(id)?)?;
        Some((connection.statistics().packets_received, connection.flow().is_some()))
    }

    /// Returns the identity of a stream's connection, which only its two ends know.
    pub(crate) fn identity(&self, id: StreamId) -> Option<Identity> {
        let connection = self.endpoint.connection(self.sessions.connection(id)?)?;
        let (sent, received) = connection.initial_sequence_numbers();
        Some(Identity { caller: sent.value(), listener: received?.value() })
    }

    /// Returns the incoming stream whose connection has this identity.
    pub(crate) fn identified(&self, identity: Identity) -> Option<StreamId> {
        let among = |(id, session): (ConnectionId, &Session)| {
            let (sent, received) = self.endpoint.connection(id)?.initial_sequence_numbers();
            let own = Identity { caller: received?.value(), listener: sent.value() };
            own.is_seen_as(identity).then_some(session.id)
        };
        self.sessions.iter().find_map(among)
    }

    /// Removes a stream that moves to another transport: its connection ends, and data in flight is lost.
    pub(crate) fn take(&mut self, now: Instant, id: StreamId) -> Option<Session> {
        let connection = self.sessions.connection(id)?;
        let mut session = self.sessions.remove(connection)?;
        self.close(now, connection);
        session.sending.carrier_gone();
        Some(session)
    }

    fn turn_away(&mut self, now: Instant, connection: ConnectionId) {
        self.ends(connection);
        if let Err(error) = self.endpoint.abort(now, connection, ResetCode::TooBusy) {
            tracing::debug!(%error, "refusing");
        }
    }

    /// Closes a connection that has no stream any more.
    fn close(&mut self, now: Instant, connection: ConnectionId) {
        self.ends(connection);
        if let Err(error) = self.endpoint.close(now, connection) {
            tracing::debug!(%error, "closing");
        }
    }

    pub(crate) fn close_all(&mut self, now: Instant) {
        let connections: Vec<_> = self.endpoint.connections().collect();
        for (_, session) in self.sessions.iter_mut() {
            session.close(CloseReason::Local);
        }
        for connection in connections {
            self.close(now, connection);
        }
    }

    /// Notes that a connection ends.
    fn ends(&mut self, connection: ConnectionId) {
        self.slow.remove(&connection);
        self.is_answered(connection);
        if self.lives.contains_key(&connection) {
            self.ending.insert(connection);
        }
    }

    /// Returns whether the host that a stream calls has no such UDP port.
    pub(crate) fn is_refused(&self, id: StreamId) -> bool {
        self.sessions.connection(id).is_some_and(|connection| self.callers.is_refused(connection))
    }

    /// Ends a refused connection attempt: TCP is no alternative.
    pub(crate) fn give_in(&mut self, now: Instant, id: StreamId) {
        let refusal = self.sessions.connection(id).and_then(|connection| self.callers.give_in(connection));
        if let Some((remote, quoted)) = refusal {
            kept(self.endpoint.port_unreachable(now, remote, &quoted));
        }
    }

    /// Reads ICMP messages while a connection attempt has no answer; later ones are not believed (RFC 5927).
    fn hear_refusals(&mut self, now: Instant) {
        let (endpoint, callers) = (&mut self.endpoint, &mut self.callers);
        self.socket.receive_refusals(|remote, quoted| {
            let connection = endpoint.caller_quoted(remote, quoted);
            if connection.is_some_and(|connection| callers.refuse(connection, remote, quoted)) {
                kept(endpoint.port_unreachable(now, remote, quoted));
            }
        });
    }

    /// Notes that a connection attempt was answered, or has ended.
    fn is_answered(&mut self, connection: ConnectionId) {
        if self.callers.remove(connection)
            && let Err(error) = self.socket.report_refusals(false)
        {
            tracing::debug!(%error, "ICMP messages go on being told");
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, cm: &mut Manager) {
        if !self.callers.is_empty() {
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

    /// Reports the free receive buffer to the transports of slow readers, and of those that were slow. Data received
    /// within one round uses the room at its beginning, or drops older data.
    fn tell_rooms(&mut self) {
        let slow: Vec<_> = self.slow.iter().copied().collect();
        slow.into_iter().for_each(|connection| self.tell_room(connection));
    }

    fn tell_room(&mut self, connection: ConnectionId) {
        let Some(session) = self.sessions.look_at(connection) else { return };
        if let Some((room, is_slow)) = session.new_room() {
            self.endpoint.set_receive_room(connection, room, is_slow);
            if is_slow {
                self.slow.insert(connection);
            } else {
                self.slow.remove(&connection);
            }
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        kept(self.endpoint.handle_timeout(now, cm));
        self.sessions.handle_timeout(now);
    }

    /// Notes a grant; `false`: the flow is none of this port's.
    pub(crate) fn granted(&mut self, flow: FlowId) -> bool {
        self.endpoint.granted(flow)
    }

    /// Sends and processes events until there is no more progress; returns whether there was any.
    pub(crate) fn drain(&mut self, now: Instant, cm: &mut Manager, streams: &mut Streams) -> bool {
        let mut progress = self.transmit(now, cm);
        while let Some((connection, event)) = self.endpoint.poll_event() {
            progress = true;
            self.handle_event(now, cm, connection, event, streams);
        }
        let (endpoint, lives) = (&self.endpoint, &mut self.lives);
        self.ending.retain(|&connection| {
            let is_there = endpoint.connection(connection).is_some();
            if !is_there {
                lives.remove(&connection);
            }
            is_there
        });
        progress | self.look_after_sources(now)
    }

    /// Closes streams with nothing left to send, and requests a notification from empty rings.
    fn look_after_sources(&mut self, now: Instant) -> bool {
        let mut progress = false;
        while let Some((connection, session)) = self.sessions.poll_touched() {
            if session.sending.take_finished(now) {
                self.close(now, connection);
                progress = true;
            } else if session.sending.stop_polling() {
                self.endpoint.wake(connection);
                progress = true;
            }
        }
        progress
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
            Event::Connected => self.is_answered(connection),
            // The final report, before the application learns of the end.
            Event::Closed { .. } => {
                self.ends(connection);
                self.report(now, cm, connection, true);
            }
            _ => {}
        }
        // Lost data may be retransmitted.
        if let Event::Lost { .. } | Event::Overdue { .. } = event {
            self.endpoint.wake(connection);
        }
        if let Some(session) = self.sessions.get_mut(connection) {
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
                streams.place(session.id, self.number);
                self.sessions.insert(connection, session);
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
        for connection in self.sessions.take_changed() {
            self.report(now, cm, connection, false);
            self.tell_room(connection);
            let Some(session) = self.sessions.look_at(connection) else { continue };
            session.sending.drop_expired(now);
            session.sending.watch(now);
            session.wake();
            let timer = session.sending.poll_timeout();
            self.sessions.set_timer(connection, timer);
        }
    }

    fn report(&mut self, now: Instant, cm: &Manager, connection: ConnectionId, last: bool) {
        let Some(state) = self.endpoint.connection(connection) else { return };
        let mut path = state.flow().and_then(|flow| cm.query(flow).ok());
        // Until data are acknowledged, the handshake tells the round trip.
        if let Some(path) = path.as_mut().filter(|path| path.srtt.is_none()) {
            (path.srtt, path.min_rtt) = (state.handshake_rtt(), state.handshake_rtt());
        }
        if let Some(session) = self.sessions.look_at(connection) {
            session.report(now, *state.statistics(), path, last);
        }
    }

    /// Returns the time of the next timer. While the kernel has no room, the socket is polled instead.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let timeout = if self.is_blocked() { None } else { kept(self.endpoint.poll_timeout()) };
        timeout.into_iter().chain(self.sessions.poll_timeout()).min()
    }
}

/// Unwraps the result of a transport call: the engine keeps the driving order.
fn kept<T>(result: Result<T, Misuse>) -> T {
    result.expect("the engine keeps the driving order, and its clock does not go back")
}

#[cfg(test)]
mod tests;
