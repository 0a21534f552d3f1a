//! A UDP port, or an address of DCCP without UDP: its socket, and the driver of its streams.

mod calls;
mod moving;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use timeous_cm::{FlowId, Manager};
use timeous_core::{IdMap, Instant, Rng};
use timeous_dccp::{CloseReason, ConnectionId, Endpoint, EndpointConfig, Event, Local, ResetCode, Route};
use timeous_kernel_tcp::TcpSession as _;
use timeous_seal::AssociationId;
use timeous_stream::{Driver, Order, StreamId, in_order};

use crate::batch::Batch;
use crate::callers::Callers;
use crate::carrier::Carrier;
use crate::clock;
use crate::command::{ListenerId, Made, PortLife, User};
use crate::config::StreamConfig;
use crate::error::EngineError;
use crate::listening::Listening;
use crate::port_group::GroupShare;
use crate::sealed::{PlainNotices, Sealed};
use crate::sealing::Sealing;
use crate::session::Session;
use crate::streams::Streams;
use crate::udp::{Reservation, Socket, Way};

/// Reads of a batch of datagrams from the socket in one round. Chosen by us: a higher value costs fewer rounds and lets a flood delay what is
/// sent for longer, by about 3 ms.
const MOST_READS: u32 = 16;

pub(crate) struct Port {
    /// Number among the engine's ports.
    number: u64,
    life: Arc<()>,
    /// Life handles of this end's calls: the port is shared, and outlives them.
    lives: BTreeMap<ConnectionId, Arc<()>>,
    /// Connections that end, whose life handles go with them.
    ending: BTreeSet<ConnectionId>,
    socket: Socket,
    driver: Driver<Endpoint, Session>,
    by_stream: IdMap<StreamId, ConnectionId>,
    /// Share in a port that several workers have.
    share: Option<GroupShare>,
    /// Listeners by DCCP port, which is reserved where there is no UDP port. A UDP port has one at most.
    listening: BTreeMap<u16, (Listening, Option<Reservation>)>,
    /// Packets being sent; between calls, those that the kernel had no room for.
    batch: Batch,
    /// This end's connection attempts.
    callers: Callers,
    /// Encryption of all packets; `None`: a port for plain ones.
    sealed: Option<Sealed>,
    associations: IdMap<ConnectionId, AssociationId>,
    /// Plain packets from other hosts are refused.
    is_local: bool,
    plain_notices: PlainNotices,
}

impl Port {
    /// Creates a port without streams, of another uplink if there is a `source`; with a secret, one that encrypts.
    pub(crate) fn new(
        number: u64,
        socket: Socket,
        source: Option<IpAddr>,
        rng: &mut Rng,
        secret: Option<&[u8; 32]>,
    ) -> Self {
        let endpoint = EndpointConfig { source, ..EndpointConfig::default() };
        Self {
            number,
            life: Arc::new(()),
            lives: BTreeMap::new(),
            ending: BTreeSet::new(),
            socket,
            driver: Driver::new(Endpoint::new(endpoint, rng.fork())),
            by_stream: IdMap::default(),
            share: None,
            listening: BTreeMap::new(),
            batch: Batch::default(),
            callers: Callers::default(),
            sealed: secret.map(Sealed::new),
            associations: IdMap::default(),
            is_local: false,
            plain_notices: PlainNotices::default(),
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

    /// Makes it this worker's share of a port that several have.
    pub(crate) fn share(&mut self, share: Option<GroupShare>) {
        self.share = share;
    }

    /// Returns whether the port is unused, by all workers that share it.
    pub(crate) fn is_idle(&mut self) -> bool {
        let Driver { endpoint, sessions, .. } = &self.driver;
        let is_idle = self.listening.is_empty()
            && sessions.is_empty()
            && endpoint.connections().next().is_none()
            && self.sealed.as_ref().is_none_or(|sealed| sealed.endpoint.is_empty());
        self.share.as_mut().map_or(is_idle, |share| share.is_over(!is_idle))
    }

    pub(crate) fn has(&self, id: StreamId) -> bool {
        self.by_stream.contains(id) || self.sealed.as_ref().is_some_and(|sealed| sealed.has_call(id))
    }

    fn connection(&self, id: StreamId) -> Option<ConnectionId> {
        self.by_stream.get(id).copied()
    }

    fn add(&mut self, connection: ConnectionId, session: Session, streams: &mut Streams) {
        streams.place(session.id, self.number);
        self.by_stream.insert(session.id, connection);
        self.driver.sessions.insert(connection, session);
    }

    /// Removes a stream, and ends its connection: at once with the reset `code`, or else gracefully.
    fn remove(&mut self, now: Instant, id: StreamId, code: Option<ResetCode>) -> Option<Session> {
        let connection = self.by_stream.remove(id)?;
        self.ends(connection);
        self.end(now, connection, code)
    }

    fn end(&mut self, now: Instant, connection: ConnectionId, code: Option<ResetCode>) -> Option<Session> {
        let session = self.driver.remove(now, connection);
        // Fails only for an ended connection.
        let _ended = match code {
            Some(code) => self.driver.endpoint.abort(now, connection, code),
            None => self.driver.endpoint.close(now, connection),
        };
        session
    }

    pub(crate) fn connect(
        &mut self,
        now: Instant,
        (remote, user): (SocketAddr, User),
        config: &StreamConfig,
        streams: &mut Streams,
    ) -> Result<(StreamId, Made), EngineError> {
        if let Sealing::Caller(credential) = &config.sealing {
            return self.call(now, (remote, user), config, credential, streams);
        }
        let route = match self.native() {
            Some(local) => Route::native(local, remote),
            None => remote.into(),
        };
        let connection =
            self.driver.endpoint.connect_with(now, route, config.dccp_port, config.service, config.dccp())?;
        let life = Arc::new(());
        let (session, stream) = match streams.make(user, config, PortLife::of(&life)) {
            Ok(made) => made,
            Err(error) => {
                self.end(now, connection, None);
                return Err(error);
            }
        };
        if self.native().is_none() {
            if self.callers.is_empty()
                && let Err(error) = self.socket.report_refusals(true)
            {
                self.end(now, connection, None);
                return Err(error.into());
            }
            self.callers.insert(connection, config.carrier == Carrier::Auto);
        }
        session.set_peer(remote);
        let id = session.id;
        self.add(connection, session, streams);
        self.lives.insert(connection, life);
        Ok((id, stream))
    }

    /// Returns the address of a port without UDP.
    pub(crate) fn native(&self) -> Option<IpAddr> {
        if self.socket.is_raw() { self.socket.local_addr().ok().map(|local| local.ip()) } else { None }
    }

    pub(crate) fn listen(&mut self, listening: Listening, reservation: Option<Reservation>) {
        let config = &listening.config;
        // Without UDP, listeners and calls share the socket: there a caller is refused when it comes in.
        self.is_local = matches!(config.sealing, Sealing::Local) && !self.socket.is_raw();
        if let (Some(sealed), Sealing::Listener(credential)) = (&mut self.sealed, &config.sealing) {
            sealed.endpoint.listen(credential.clone());
        }
        self.driver.endpoint.listen_with(config.dccp_port, &[config.service], config.dccp());
        self.listening.insert(config.dccp_port, (listening, reservation));
    }

    pub(crate) fn stop_listening(&mut self, id: ListenerId) {
        let (endpoint, sealed) = (&mut self.driver.endpoint, &mut self.sealed);
        self.listening.retain(|&port, (listening, _)| {
            if listening.id == id {
                endpoint.stop_listening(port);
                if let Some(sealed) = sealed {
                    sealed.endpoint.stop_listening();
                }
            }
            listening.id != id
        });
    }

    /// Carries out a stream's request.
    pub(crate) fn obey(&mut self, now: Instant, id: StreamId, order: Order) {
        let Some(connection) = self.connection(id) else {
            if let Some(mut call) = self.sealed.as_mut().and_then(|sealed| sealed.obey(id, order)) {
                call.session.close(CloseReason::Local);
                self.stop_hearing_refusals();
            }
            return;
        };
        match order {
            Order::Notify => self.driver.notify(connection),
            Order::Finish => self.driver.finish(connection),
            // The application dropped the receiving half.
            Order::Ignore => self.driver.endpoint.stop_receiving(connection),
            // The application dropped the stream, with its queued data.
            Order::Abandon => self.drop_stream(now, id, None),
            Order::Refuse => self.drop_stream(now, id, Some(ResetCode::TooBusy)),
            Order::Rate(rate) => {
                if let Some(session) = self.driver.sessions.get_mut(connection) {
                    session.sending.set_rate(rate);
                }
            }
            // The end of the round takes the snapshot.
            Order::Tell => self.driver.sessions.touch(connection),
        }
    }

    fn drop_stream(&mut self, now: Instant, id: StreamId, code: Option<ResetCode>) {
        if let Some(mut session) = self.remove(now, id, code) {
            session.close(CloseReason::Local);
        }
    }

    pub(crate) fn close_all(&mut self, now: Instant) {
        let Driver { endpoint, sessions, .. } = &mut self.driver;
        for connection in sessions.ids() {
            if let Some(session) = sessions.get_mut(connection) {
                session.close(CloseReason::Local);
            }
        }
        let connections: Vec<_> = endpoint.connections().collect();
        for connection in connections {
            // Fails only for an ended connection.
            let _ended = endpoint.close(now, connection);
        }
        for mut call in self.sealed.as_mut().map(Sealed::take_calls).unwrap_or_default() {
            call.session.close(CloseReason::Local);
        }
    }

    /// Notes that a connection ends.
    fn ends(&mut self, connection: ConnectionId) {
        self.is_answered(connection);
        if self.lives.contains_key(&connection) || self.sealed.is_some() {
            self.ending.insert(connection);
        }
    }

    /// Reads ICMP messages while a connection attempt has no answer; later ones are not believed (RFC 5927).
    fn hear_refusals(&mut self, now: Instant) {
        let (endpoint, callers) = (&mut self.driver.endpoint, &mut self.callers);
        if let Some(sealed) = &mut self.sealed {
            self.socket.receive_refusals(|remote, quoted| sealed.hear_refusal(now, remote, quoted));
            return;
        }
        self.socket.receive_refusals(|remote, quoted| {
            let connection = endpoint.caller_quoted(remote, quoted);
            if connection.is_some_and(|connection| callers.refuse(connection, remote, quoted)) {
                in_order(endpoint.port_unreachable(now, remote, quoted));
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

    /// Handles datagrams, each at the time at which it was read; returns the last of these times, or `now`.
    pub(crate) fn receive(&mut self, now: Instant, cm: &mut Manager) -> Instant {
        if !self.callers.is_empty() || self.sealed.as_ref().is_some_and(Sealed::is_calling) {
            self.hear_refusals(now);
        }
        self.driver.tell_rooms();
        for (&port, (listening, _)) in &self.listening {
            self.driver.endpoint.set_room(port, Some(listening.incoming.room()));
        }
        let (driver, share) = (&mut self.driver, &self.share);
        let (sealed, notices, is_local) = (&mut self.sealed, &mut self.plain_notices, self.is_local);
        let mut last = now;
        // Under a flood, sending and the other ports have their turn, too.
        for _ in 0..MOST_READS {
            let more = self.socket.receive(last, |now, Way { from, to }, meta, datagram| {
                last = now;
                if share.as_ref().is_some_and(|share| !share.has(from.ip())) {
                    return;
                }
                if let Some(sealed) = sealed {
                    let is_ours = sealed.handle_datagram(now, from, datagram, |association, packet| {
                        let route = Route::sealed(from, association.value());
                        in_order(driver.endpoint.handle_datagram(now, cm, route, packet, meta));
                    });
                    if !is_ours {
                        in_order(driver.endpoint.refuse_request(
                            now,
                            from,
                            (datagram, meta.ecn),
                            ResetCode::Unencrypted,
                        ));
                    }
                    return;
                }
                if notices.answer(now, from, datagram) {
                    return;
                }
                let route = to.map_or_else(|| from.into(), |to| Route::native(to, from));
                if is_local && !is_of_this_host(from.ip()) {
                    in_order(driver.endpoint.refuse_request(now, route, (datagram, meta.ecn), ResetCode::Unencrypted));
                    return;
                }
                in_order(driver.endpoint.handle_datagram(now, cm, route, datagram, meta));
            });
            match more {
                Ok(true) => {}
                Ok(false) => break,
                // An ICMP error of an earlier packet. The connection's own timers handle it.
                Err(error) => tracing::debug!(%error, "receiving"),
            }
        }
        last
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, cm: &mut Manager) {
        if let Some(sealed) = &mut self.sealed {
            sealed.endpoint.handle_timeout(now);
        }
        self.driver.handle_timeout(now, cm);
    }

    /// Notes a grant; `false`: the flow is none of this port's.
    pub(crate) fn granted(&mut self, flow: FlowId) -> bool {
        self.driver.endpoint.granted(flow)
    }

    /// Sends and processes events until there is no more progress; returns whether there was any.
    pub(crate) fn drain(&mut self, now: Instant, cm: &mut Manager, streams: &mut Streams) -> bool {
        // On a busy machine the round may have begun long ago: deadlines and round trips count from the instant of sending.
        let mut now = clock::now().max(now);
        let mut progress = self.hear_of_keys(now, cm, streams) | self.transmit(&mut now, cm);
        while let Some((connection, event)) = self.driver.poll_event() {
            progress = true;
            self.handle_event(now, cm, connection, event, streams);
        }
        let (endpoint, lives, associations) = (&self.driver.endpoint, &mut self.lives, &mut self.associations);
        let sealed = &mut self.sealed;
        self.ending.retain(|&connection| {
            let is_there = endpoint.connection(connection).is_some();
            if !is_there {
                lives.remove(&connection);
                if let (Some(sealed), Some(association)) = (sealed.as_mut(), associations.remove(connection)) {
                    sealed.end(association);
                }
            }
            is_there
        });
        progress | self.driver.look_after_sources(now)
    }

    /// Pulls and sends as many packets as allowed now. While packets wait for the kernel, none are pulled.
    fn transmit(&mut self, now: &mut Instant, cm: &mut Manager) -> bool {
        self.plain_notices.transmit(&mut self.socket);
        let mut progress = self.sealed.as_mut().is_some_and(|sealed| sealed.transmit(*now, &mut self.socket));
        loop {
            let at = clock::now().max(*now);
            let seal = self.sealed.as_mut().map(|sealed| &mut sealed.endpoint);
            if !self.batch.send(at, &mut self.socket, &mut self.driver.sessions, seal) {
                return progress;
            }
            *now = clock::now().max(*now);
            while let Some((connection, len)) = self.batch.poll_too_large() {
                // Fails only for an ended connection.
                let _ended = self.driver.endpoint.was_too_large(*now, connection, len);
            }
            self.pull(*now, cm);
            if self.batch.is_empty() {
                return progress;
            }
            progress = true;
        }
    }

    fn pull(&mut self, now: Instant, cm: &mut Manager) {
        while self.batch.has_room() {
            match self.driver.poll_transmit(now, cm, self.batch.room(), self.batch.buffer()) {
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
            Event::Closed { .. } => self.ends(connection),
            _ => {}
        }
        self.driver.deliver(now, cm, connection, event);
    }

    /// Creates a stream for an incoming connection, or refuses it as busy.
    fn take_in(&mut self, now: Instant, connection: ConnectionId, port: u16, streams: &mut Streams) {
        let association = match self.driver.endpoint.route(connection).map(|route| route.end()) {
            Some(Local::Sealed(association)) => Some(AssociationId::new(association)),
            _ => None,
        };
        let is_second = self.sealed.as_ref().zip(association).is_some_and(|(sealed, id)| sealed.has_connection(id));
        let is_of_this_host = self.driver.endpoint.remote(connection).is_some_and(|peer| is_of_this_host(peer.ip()));
        let is_foreign = !is_of_this_host
            && self
                .listening
                .get(&port)
                .is_some_and(|(listening, _)| matches!(listening.config.sealing, Sealing::Local));
        if is_foreign {
            self.end(now, connection, Some(ResetCode::Unencrypted));
            return;
        }
        // An incoming TCP connection may have taken the last place.
        let listening = self.listening.get(&port).filter(|(listening, _)| !is_second && listening.incoming.room() > 0);
        let Some((listening, _)) = listening else {
            self.end(now, connection, Some(ResetCode::TooBusy));
            return;
        };
        match streams.make(listening.user, &listening.config, PortLife::default()) {
            Ok((session, stream)) => {
                if let Some(peer) = self.driver.endpoint.remote(connection) {
                    session.set_peer(peer);
                }
                if let (Some(sealed), Some(association)) = (&mut self.sealed, association) {
                    sealed.begin(association, connection);
                    self.associations.insert(connection, association);
                    if let Some(stream_id) = sealed.endpoint.stream_id(association) {
                        session.set_stream_id(stream_id);
                    }
                    if let Some(intent) = sealed.endpoint.intent(association) {
                        session.set_intent(intent);
                    }
                }
                // Its handshake is complete; the event that says so follows.
                session.set_open();
                if listening.incoming.push(stream).is_err() {
                    self.end(now, connection, Some(ResetCode::TooBusy));
                    return;
                }
                self.add(connection, session, streams);
            }
            Err(error) => {
                tracing::warn!(%error, "no stream for a caller");
                self.end(now, connection, Some(ResetCode::TooBusy));
            }
        }
    }

    /// Wakes the applications once for all that has happened.
    pub(crate) fn wake_applications(&mut self, now: Instant, cm: &Manager) {
        self.driver.end_round(now, cm);
    }

    /// Returns the time of the next timer. While the kernel has no room, the socket is polled instead.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        let sealed = self.sealed.as_ref().and_then(|sealed| sealed.endpoint.poll_timeout());
        let driver = if self.is_blocked() { self.driver.sessions.poll_timeout() } else { self.driver.poll_timeout() };
        driver.into_iter().chain(sealed).min()
    }
}

/// Returns whether an address is of this host whatever its network is.
pub(crate) fn is_of_this_host(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

#[cfg(test)]
mod tests;
