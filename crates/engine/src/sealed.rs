//! Encryption of a UDP port: the associations below its connections, and calls whose handshake is not complete.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use arrayvec::ArrayVec;
use timeous_core::{Ecn, IdMap, Instant, RateLimit};
use timeous_dccp::ConnectionId;
use timeous_seal::{AssociationId, CallerCredential, Endpoint, EndpointConfig, Event, Received, SealError};
use timeous_stream::{Order, StreamId};

use crate::carrier::Carrier;
use crate::config::StreamConfig;
use crate::session::Session;
use crate::udp::{Packet, Socket};

/// Notices per second to callers that would encrypt, at a port that does not. Chosen by us: a caller repeats its first datagram,
/// so that a lost notice is soon followed by another.
const NOTICES_PER_SECOND: u32 = 20;

/// A call that has no keys yet: its stream waits for its connection.
pub(crate) struct Call {
    pub(crate) remote: SocketAddr,
    pub(crate) session: Session,
    pub(crate) config: StreamConfig,
    pub(crate) life: Arc<()>,
    /// Destination and quoted datagram of the last ICMP message "port unreachable", which does not end a call that TCP may answer.
    pub(crate) refusal: Option<(SocketAddr, Vec<u8>)>,
    /// Reason why the agreement over TCP has failed.
    pub(crate) tcp_error: Option<SealError>,
}

/// Encryption below a port's connections.
pub(crate) struct Sealed {
    pub(crate) endpoint: Endpoint,
    calls: IdMap<StreamId, (AssociationId, Call)>,
    callers: IdMap<AssociationId, StreamId>,
    connections: IdMap<AssociationId, ConnectionId>,
    /// Packet being opened.
    packet: Vec<u8>,
    /// Datagrams of handshakes being written.
    datagrams: Vec<(SocketAddr, Vec<u8>)>,
}

/// Something that a port has to do.
pub(crate) enum News {
    /// A call has keys: its connection can begin.
    CanSeal(AssociationId, Box<Call>),
    /// A call has failed.
    Failed(Box<Call>, SealError),
    /// Somebody says that the peer has lost the keys of a connection, which only its answer can show.
    Doubted(ConnectionId),
    /// The keys of a connection are lost.
    Lost(ConnectionId, SealError),
}

impl Sealed {
    pub(crate) fn new(secret: &[u8; 32]) -> Self {
        Self {
            endpoint: Endpoint::new(EndpointConfig::default(), secret),
            calls: IdMap::default(),
            callers: IdMap::default(),
            connections: IdMap::default(),
            packet: Vec::new(),
            datagrams: Vec::new(),
        }
    }

    /// Begins a call.
    pub(crate) fn call(
        &mut self,
        now: Instant,
        credential: &CallerCredential,
        call: Call,
    ) -> Result<(), (SealError, Box<Call>)> {
        match self.endpoint.connect(now, call.remote, credential, call.config.dccp.connect_timeout) {
            Ok(association) => {
                let stream = call.session.id;
                self.callers.insert(association, stream);
                self.calls.insert(stream, (association, call));
                Ok(())
            }
            Err(error) => Err((error, Box::new(call))),
        }
    }

    pub(crate) fn has_call(&self, stream: StreamId) -> bool {
        self.calls.contains(stream)
    }

    /// Returns whether there are calls without an agreement.
    pub(crate) fn is_calling(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Carries out a request of a stream whose call has no agreement yet; `Some`: the call is given up.
    pub(crate) fn obey(&mut self, stream: StreamId, order: Order) -> Option<Box<Call>> {
        let (_, call) = self.calls.get_mut(stream)?;
        match order {
            Order::Finish => call.session.sending.finish(),
            Order::Rate(rate) => call.session.sending.set_rate(rate),
            Order::Abandon | Order::Refuse => return self.take_call(stream).map(Box::new),
            // The connection finds the data when it begins.
            Order::Notify | Order::Ignore | Order::Tell => {}
        }
        None
    }

    /// Takes a call without an agreement: it ends, or its stream moves to TCP.
    pub(crate) fn take_call(&mut self, stream: StreamId) -> Option<Call> {
        let (association, call) = self.calls.remove(stream)?;
        self.callers.remove(association);
        Some(call)
    }

    /// Returns the number of handshake bytes received for a call without an agreement.
    pub(crate) fn handshake_bytes(&self, stream: StreamId) -> Option<u64> {
        self.calls.get(stream).map(|&(association, _)| self.endpoint.handshake_bytes(association))
    }

    /// Takes in an ICMP message that nobody has the port that a call was sent to.
    pub(crate) fn hear_refusal(&mut self, now: Instant, remote: SocketAddr, quoted: &[u8]) {
        let stream = self.endpoint.caller_quoted(remote, quoted).and_then(|id| self.callers.get(id).copied());
        match stream.and_then(|stream| self.calls.get_mut(stream)) {
            Some((_, call)) if call.config.carrier == Carrier::Auto => call.refusal = Some((remote, quoted.to_vec())),
            _ => self.endpoint.port_unreachable(now, remote, quoted),
        }
    }

    /// Returns whether a call was refused by an ICMP message.
    pub(crate) fn is_refused(&self, stream: StreamId) -> bool {
        self.calls.get(stream).is_some_and(|(_, call)| call.refusal.is_some())
    }

    /// Ends a refused call: TCP is no alternative.
    pub(crate) fn give_in(&mut self, now: Instant, stream: StreamId) {
        if let Some((remote, quoted)) = self.calls.get_mut(stream).and_then(|(_, call)| call.refusal.take()) {
            self.endpoint.port_unreachable(now, remote, &quoted);
        }
    }

    /// Notes why the agreement of a call over TCP has failed; returns the call if that ends it.
    pub(crate) fn note_tcp_failure(&mut self, stream: StreamId, error: SealError) -> Option<(Call, SealError)> {
        let (_, call) = self.calls.get_mut(stream)?;
        if error.is_refusal() || call.refusal.is_some() {
            return self.take_call(stream).map(|call| (call, error));
        }
        call.tcp_error = Some(error);
        None
    }

    /// Takes all calls without an agreement: the engine ends.
    pub(crate) fn take_calls(&mut self) -> Vec<Call> {
        let streams = self.calls.ids();
        streams.into_iter().filter_map(|stream| self.calls.remove(stream).map(|(_, call)| call)).collect()
    }

    /// Returns whether an association has its connection already: it carries one.
    pub(crate) fn has_connection(&self, association: AssociationId) -> bool {
        self.connections.contains(association)
    }

    /// Notes the connection of an association.
    pub(crate) fn begin(&mut self, association: AssociationId, connection: ConnectionId) {
        self.endpoint.set_used(association, true);
        self.connections.insert(association, connection);
    }

    /// Notes that a connection of an association is gone.
    pub(crate) fn end(&mut self, association: AssociationId) {
        self.endpoint.set_used(association, false);
        self.connections.remove(association);
    }

    /// Opens a datagram, and passes a packet on.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        mut packet: impl FnMut(AssociationId, &[u8]),
    ) -> bool {
        self.packet.clear();
        match self.endpoint.handle_datagram(now, from, datagram, &mut self.packet) {
            Received::Packet(association) => packet(association, &self.packet),
            Received::Nothing => {}
            Received::Foreign => return false,
        }
        true
    }

    /// Sends what the handshakes have to say. What the kernel has no room for is repeated by their timers.
    pub(crate) fn transmit(&mut self, now: Instant, socket: &mut Socket) -> bool {
        let mut progress = false;
        loop {
            let mut count = 0;
            while count < Socket::BATCH {
                if count == self.datagrams.len() {
                    self.datagrams.push(((Ipv4Addr::UNSPECIFIED, 0).into(), Vec::new()));
                }
                let (to, datagram) = &mut self.datagrams[count];
                datagram.clear();
                let Some(remote) = self.endpoint.poll_transmit(now, datagram) else { break };
                *to = remote;
                count += 1;
            }
            send(socket, &self.datagrams[..count]);
            progress |= count > 0;
            if count < Socket::BATCH {
                return progress;
            }
        }
    }

    /// Returns the next news.
    pub(crate) fn poll_news(&mut self) -> Option<News> {
        loop {
            let (id, error) = match self.endpoint.poll_event()? {
                // The connection begins with a packet behind the proof; one of a listener, with the packet that comes.
                Event::CanSeal { id } => (id, None),
                Event::Agreed { .. } => continue,
                Event::Doubted { id } => match self.connections.get(id).copied() {
                    Some(connection) => return Some(News::Doubted(connection)),
                    None => continue,
                },
                Event::Failed { id, error } => (id, Some(error)),
            };
            let call = self.callers.remove(id).and_then(|stream| self.calls.remove(stream));
            match (call, error) {
                (Some((_, call)), None) => return Some(News::CanSeal(id, Box::new(call))),
                (Some((_, mut call)), Some(error)) => {
                    // Where UDP is blocked, what TCP has told says more than silence.
                    let told = call.tcp_error.take().filter(|_| error == SealError::NoAnswer);
                    return Some(News::Failed(Box::new(call), told.unwrap_or(error)));
                }
                (None, Some(error)) => {
                    if let Some(connection) = self.connections.get(id).copied() {
                        return Some(News::Lost(connection, error));
                    }
                }
                // It was given up.
                (None, None) => {}
            }
        }
    }
}

/// Answers of a port that does not encrypt to callers that would.
pub(crate) struct PlainNotices {
    rate: RateLimit,
    waiting: Vec<(SocketAddr, Vec<u8>)>,
}

impl Default for PlainNotices {
    fn default() -> Self {
        Self { rate: RateLimit::per_second(NOTICES_PER_SECOND), waiting: Vec::new() }
    }
}

impl PlainNotices {
    /// Prepares the answer to a datagram, if it begins an encrypted call; `true`: it does.
    pub(crate) fn answer(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        let is_call = timeous_seal::is_call(datagram);
        if is_call && self.rate.take(now) {
            let mut notice = Vec::new();
            timeous_seal::write_plain_notice(datagram, &mut notice);
            self.waiting.push((from, notice));
        }
        is_call
    }

    pub(crate) fn transmit(&mut self, socket: &mut Socket) {
        send(socket, &self.waiting);
        self.waiting.clear();
    }
}

fn send(socket: &mut Socket, datagrams: &[(SocketAddr, Vec<u8>)]) {
    for datagrams in datagrams.chunks(Socket::BATCH) {
        let packets: ArrayVec<Packet<'_>, { Socket::BATCH }> = datagrams
            .iter()
            .map(|(to, datagram)| Packet { to: *to, from: None, ecn: Ecn::NotEct, header: datagram, payload: None })
            .collect();
        socket.send(&packets, |at, result| {
            if let Err(error) = result {
                tracing::debug!(%error, to = %packets[at].to, "sending a handshake");
            }
        });
    }
}
