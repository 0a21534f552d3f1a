//! The associations of one UDP socket: calls, answers, sealed datagrams told apart by identifier.

mod config;
mod entry;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use timeous_core::{Duration, HostRateLimit, IdMap, Instant, RateLimit, Schedule};

pub use config::{EndpointConfig, EndpointStatistics};

use crate::access::Intent;
use crate::association::{Association, Secrets};
use crate::credential::{CallerCredential, ListenerCredential};
use crate::error::SealError;
use crate::handshake::Exchange;
use crate::migration::MigrationSecret;
use crate::session::{Agreement, Session};
use crate::token::Mint;
use crate::wire::{Datagram, HANDSHAKE_LEN, Handshake, forgotten, quoted_caller, retry};
use entry::Entry;

/// Most notices and retries queued. Chosen by us: it bounds memory under a flood; a higher value answers more callers.
const MAX_NOTICES: usize = 256;
/// Number of token buckets for calls, which hosts share. Chosen by us: a higher value takes more memory, with a lower one more
/// hosts share a bucket.
const CALL_BUCKETS: usize = 256;

/// Identifier of an association, which its peer puts into each datagram; random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub(crate) u32);

impl AssociationId {
    /// Takes the number that [`value`](Self::value) returned.
    #[must_use]
    pub fn new(value: u32) -> Self {
        Self(value)
    }

    /// Returns the identifier as a number, for a transport that knows no associations.
    #[must_use]
    pub fn value(self) -> u32 {
        self.0
    }
}

/// Content of a received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Nothing for the transport: a part of a handshake, or a packet that does not open.
    Nothing,
    /// An authenticated packet, appended to the caller's buffer.
    Packet(AssociationId),
    /// Not a datagram of a sealed port: perhaps a caller that does not encrypt.
    Foreign,
}

/// Something that the driver has to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A call of ours has keys and has sent its proof: packets can be sealed, and leave behind it. None is opened before the listener's
    /// answer, which comes as [`Agreed`](Self::Agreed) or [`Failed`](Self::Failed).
    CanSeal {
        /// The association.
        id: AssociationId,
    },
    /// The two ends have agreed: packets can be sealed and are opened.
    Agreed {
        /// The association.
        id: AssociationId,
        /// The stream that the caller has named; empty if it has named none.
        stream_id: String,
    },
    /// The peer seems to have lost its keys, or somebody has forged that. A packet that the peer has to answer shows the contrary:
    /// the transport may be silent otherwise, and without an authenticated packet the association fails
    /// ([`EndpointConfig::doubt`]).
    Doubted {
        /// The association.
        id: AssociationId,
    },
    /// A call of ours has failed, the peer of an association has lost its keys, or its integrity limit is reached. A listener's refusals are not reported.
    Failed {
        /// The association, which is gone.
        id: AssociationId,
        /// The reason.
        error: SealError,
    },
}

/// The associations of one UDP socket, sans-IO: datagrams and time in, datagrams and events out.
///
/// After each input, [`poll_transmit`](Self::poll_transmit) until `None`, [`poll_event`](Self::poll_event) until `None`, then
/// [`poll_timeout`](Self::poll_timeout).
///
/// ```
/// use std::sync::Arc;
/// use timeous_core::{Duration, Instant};
/// use timeous_seal::{
///     CallerCredential, Endpoint, EndpointConfig, Event, Intent, ListenerCredential, Passphrase, Received,
///     SEALED_HEADER_LEN, SharedPassphrase, Trust,
/// };
/// let (now, passphrase) = (Instant::ZERO, Passphrase::derive("correct horse battery")?);
/// let mut caller = Endpoint::new(EndpointConfig::default(), &[1; 32]);
/// let mut listener = Endpoint::new(EndpointConfig::default(), &[2; 32]);
/// listener.listen(ListenerCredential::new(None, None, Arc::new(SharedPassphrase(Some(passphrase.clone()))))?);
/// let credential = CallerCredential::new("192.0.2.1", &Trust::Passphrase, Some(passphrase), None, Intent::Publish)?;
/// let (from, to) = ("192.0.2.2:5000".parse()?, "192.0.2.1:7000".parse()?);
/// let id = caller.connect(now, to, &credential, Duration::from_secs(5))?;
///
/// let (mut datagram, mut packet) = (Vec::new(), Vec::new());
/// for _ in 0..3 {
///     while caller.poll_transmit(now, &mut datagram).is_some() {
///         listener.handle_datagram(now, from, &datagram, &mut packet);
///         datagram.clear();
///     }
///     while listener.poll_transmit(now, &mut datagram).is_some() {
///         caller.handle_datagram(now, to, &datagram, &mut packet);
///         datagram.clear();
///     }
/// }
/// assert_eq!(caller.poll_event(), Some(Event::CanSeal { id }));
/// assert_eq!(caller.poll_event(), Some(Event::Agreed { id, stream_id: String::new() }));
/// datagram.resize(SEALED_HEADER_LEN, 0);
/// datagram.extend_from_slice(b"packet");
/// assert!(caller.seal(id, &mut datagram));
/// assert!(matches!(listener.handle_datagram(now, from, &datagram, &mut packet), Received::Packet(_)));
/// assert_eq!(packet, b"packet");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    mint: Mint,
    listener: Option<ListenerCredential>,
    entries: IdMap<AssociationId, Box<Entry>>,
    /// Associations by the peer's address and its identifier, for repeated first datagrams and for notices.
    by_peer: BTreeMap<(SocketAddr, u32), AssociationId>,
    /// Incoming calls that have not agreed yet, those that have failed included, oldest first.
    half_open: VecDeque<AssociationId>,
    schedule: Schedule<AssociationId>,
    notices: VecDeque<(SocketAddr, Vec<u8>)>,
    notice_rate: RateLimit,
    call_rate: RateLimit,
    host_call_rate: HostRateLimit,
    events: VecDeque<Event>,
    statistics: EndpointStatistics,
}

impl Endpoint {
    /// Creates an endpoint. `secret` makes its identifiers and tokens unguessable: take it from the system's generator.
    #[must_use]
    pub fn new(config: EndpointConfig, secret: &[u8; 32]) -> Self {
        let mint = Mint::new(secret);
        Self {
            host_call_rate: HostRateLimit::per_second(mint.host_key(), CALL_BUCKETS, config.calls_per_group),
            mint,
            listener: None,
            entries: IdMap::default(),
            by_peer: BTreeMap::new(),
            half_open: VecDeque::new(),
            schedule: Schedule::default(),
            notices: VecDeque::new(),
            notice_rate: RateLimit::per_second(config.notices_per_second),
            call_rate: RateLimit::per_second(config.calls_per_second),
            events: VecDeque::new(),
            statistics: EndpointStatistics::default(),
            config,
        }
    }

    /// Accepts calls from now on.
    pub fn listen(&mut self, credential: ListenerCredential) {
        self.listener = Some(credential);
    }

    /// Accepts no more calls; associations stay.
    pub fn stop_listening(&mut self) {
        self.listener = None;
    }

    /// Begins a call, which has the time `patience`. It ends with [`Event::Agreed`] or [`Event::Failed`].
    ///
    /// # Errors
    /// [`SealError`] if the handshake cannot begin.
    pub fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        credential: &CallerCredential,
        patience: Duration,
    ) -> Result<AssociationId, SealError> {
        let session = Session::call(credential)?;
        let id = self.new_id();
        let exchange = Exchange::new(session, id.0, None, true);
        self.entries.insert(id, Box::new(Entry::handshaking(now, remote, exchange, (true, patience))));
        self.schedule.make_ready(id);
        Ok(id)
    }

    /// Creates an association without a handshake, from secrets that both ends were given: for simulations. Each end names
    /// the identifier that the other chose.
    pub fn inject(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        secrets: &Secrets,
        own: u32,
        peer: u32,
    ) -> AssociationId {
        let id = AssociationId(own);
        let mut entry = Entry::agreed(now, remote, Association::new(peer, secrets));
        entry.use_it(true);
        self.entries.insert(id, Box::new(entry));
        self.by_peer.insert((remote, peer), id);
        id
    }

    fn new_id(&mut self) -> AssociationId {
        loop {
            let id = AssociationId(self.mint.identifier());
            if !self.entries.contains(id) {
                return id;
            }
        }
    }

    /// Processes a datagram. A packet for the transport is appended to the empty `packet`.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        packet: &mut Vec<u8>,
    ) -> Received {
        match Datagram::read(datagram) {
            None => return Received::Foreign,
            Some(Datagram::Sealed { to }) => return self.open(now, from, to, datagram, packet),
            Some(Datagram::Handshake(handshake)) => self.handle_handshake(now, from, &handshake, datagram.len()),
            Some(Datagram::Retry { to, token }) => {
                let id = AssociationId(to);
                if let Some(entry) = self.entries.get_mut(id)
                    && entry.retry(from, token)
                {
                    self.schedule.make_ready(id);
                }
            }
            Some(Datagram::Plain { to }) => {
                let id = AssociationId(to);
                if let Some(entry) = self.entries.get_mut(id) {
                    entry.seems_plain(now, from);
                    self.schedule.make_ready(id);
                }
            }
            Some(Datagram::Forgotten { to }) => {
                if let Some(&id) = self.by_peer.get(&(from, to))
                    && self.entries.get_mut(id).is_some_and(|entry| entry.doubt(now, &self.config))
                {
                    self.events.push_back(Event::Doubted { id });
                    self.schedule.make_ready(id);
                }
            }
        }
        Received::Nothing
    }

    fn open(&mut self, now: Instant, from: SocketAddr, to: u32, datagram: &[u8], packet: &mut Vec<u8>) -> Received {
        let id = AssociationId(to);
        let Some(entry) = self.entries.get_mut(id) else {
            if self.notices.len() < MAX_NOTICES && self.notice_rate.take(now) {
                self.notices.push_back((from, forgotten(to)));
            }
            self.statistics.unknown += 1;
            return Received::Nothing;
        };
        if entry.open(now, datagram, packet) {
            return Received::Packet(id);
        }
        self.statistics.rejected += 1;
        if entry.is_exhausted() {
            entry.give_up(now);
            self.schedule.make_ready(id);
            self.fail(id, SealError::IntegrityLimit);
        }
        Received::Nothing
    }

    fn handle_handshake(&mut self, now: Instant, from: SocketAddr, handshake: &Handshake<'_>, len: usize) {
        let id = match handshake.to {
            0 => match self.by_peer.get(&(from, handshake.from)) {
                Some(&id) => id,
                None => match self.admit(now, from, handshake, len) {
                    Some(id) => id,
                    None => return,
                },
            },
            to => AssociationId(to),
        };
        let Some(entry) = self.entries.get_mut(id) else { return };
        let (before, could_seal) = (entry.name(), entry.can_seal());
        let agreement = entry.handle_handshake(now, from, handshake, len);
        let (after, can_seal) = (entry.name(), entry.can_seal() && !entry.is_agreed());
        if before != after {
            if let Some(name) = before {
                self.remove_name(name, id);
            }
            // A caller that takes the address and the identifier of another one does not take its name.
            if let Some(name) = after {
                self.by_peer.entry(name).or_insert(id);
            }
        }
        self.schedule.make_ready(id);
        match agreement {
            Ok(None) if can_seal && !could_seal => self.events.push_back(Event::CanSeal { id }),
            Ok(None) => {}
            Ok(Some(Agreement { stream_id, .. })) => {
                self.half_open.retain(|&other| other != id);
                self.statistics.agreed += 1;
                self.events.push_back(Event::Agreed { id, stream_id });
            }
            // It keeps its place until it is dropped: failing is no way around the limit of calls without a token.
            Err(error) => self.fail(id, error),
        }
    }

    /// Reports that an association has failed. It stays for a while, to tell the peer.
    fn fail(&mut self, id: AssociationId, error: SealError) {
        let Some(entry) = self.entries.get_mut(id) else { return };
        self.statistics.failed += 1;
        if entry.is_reported() {
            self.events.push_back(Event::Failed { id, error });
        }
    }

    /// Begins to answer a call, or returns `None` if there is no listener, no room, or no token under load.
    fn admit(
        &mut self,
        now: Instant,
        from: SocketAddr,
        handshake: &Handshake<'_>,
        len: usize,
    ) -> Option<AssociationId> {
        let credential = self.listener.clone()?;
        if len < HANDSHAKE_LEN || handshake.offset != 0 || handshake.bytes.is_empty() {
            return None;
        }
        let has_token = self.mint.is_token(now, from, handshake.from, handshake.token);
        if !has_token && self.half_open.len() >= self.config.calls_without_token {
            self.statistics.retries += 1;
            if self.notices.len() < MAX_NOTICES {
                let token = self.mint.token(now, from, handshake.from);
                self.notices.push_back((from, retry(handshake.from, &token)));
            }
            return None;
        }
        if !self.host_call_rate.take(now, from.ip()) || !self.call_rate.take(now) {
            return None;
        }
        if self.half_open.len() >= self.config.max_half_open && !self.evict(now) {
            return None;
        }
        let session = Session::answer(&credential).ok()?;
        let id = self.new_id();
        let mut exchange = Exchange::new(session, id.0, Some(handshake.from), false);
        if has_token {
            exchange.validate();
        }
        self.entries.insert(id, Box::new(Entry::handshaking(now, from, exchange, (false, self.config.patience))));
        self.by_peer.insert((from, handshake.from), id);
        self.half_open.push_back(id);
        Some(id)
    }

    /// Drops the oldest call that has failed or has had its time, if there is one.
    fn evict(&mut self, now: Instant) -> bool {
        let is_over = |entry: &Entry| entry.has_failed() || now - entry.since() >= self.config.half_open_patience;
        let mut calls = self.half_open.iter().copied();
        let Some(id) = calls.find(|&id| self.entries.get(id).is_none_or(|entry| is_over(entry))) else {
            return false;
        };
        self.forget(id);
        true
    }

    /// Seals a packet in place: `datagram` holds [`SEALED_HEADER_LEN`](crate::SEALED_HEADER_LEN) bytes of room, then the packet.
    /// Returns `false` if the association has no keys (any more). Each call makes another datagram: one that is sent again must be kept.
    pub fn seal(&mut self, id: AssociationId, datagram: &mut Vec<u8>) -> bool {
        self.entries.get_mut(id).is_some_and(|entry| entry.seal(datagram))
    }

    /// Returns the stream that the caller of an association has named, if it has.
    #[must_use]
    pub fn stream_id(&self, id: AssociationId) -> Option<&str> {
        self.entries.get(id).map(|entry| entry.stream_id()).filter(|stream_id| !stream_id.is_empty())
    }

    /// Returns the direction of the data for which the caller of an association was admitted, once agreed.
    #[must_use]
    pub fn intent(&self, id: AssociationId) -> Option<Intent> {
        self.entries.get(id)?.intent()
    }

    /// Returns the secret by which the caller of an association, once agreed, proves that a stream over another transport goes on
    /// with it.
    #[must_use]
    pub fn migration(&self, id: AssociationId) -> Option<&MigrationSecret> {
        self.entries.get(id)?.migration()
    }

    /// Returns the number of handshake bytes received from the peer: a call whose number grows is being answered.
    #[must_use]
    pub fn handshake_bytes(&self, id: AssociationId) -> u64 {
        self.entries.get(id).map_or(0, |entry| entry.received().into())
    }

    /// Returns the call of ours without an answer that an ICMP message of `remote` is about; `quoted` is the datagram that it quotes.
    #[must_use]
    pub fn caller_quoted(&self, remote: SocketAddr, quoted: &[u8]) -> Option<AssociationId> {
        let id = quoted_caller(quoted).map(AssociationId)?;
        self.entries.get(id).filter(|entry| entry.calls(remote)).map(|_| id)
    }

    /// Processes an ICMP message that `remote` has no such port; `quoted` is the datagram that it quotes. It ends a call without an
    /// answer; anything else is foreign or forged, and ignored (RFC 5927).
    pub fn port_unreachable(&mut self, now: Instant, remote: SocketAddr, quoted: &[u8]) {
        let Some(id) = self.caller_quoted(remote, quoted) else { return };
        if let Some(entry) = self.entries.get_mut(id) {
            entry.give_up(now);
            self.schedule.make_ready(id);
            self.fail(id, SealError::Unreachable);
        }
    }

    /// Notes whether a connection uses the association. One that none uses is dropped when nothing comes from its peer.
    pub fn set_used(&mut self, id: AssociationId, is_used: bool) {
        if let Some(entry) = self.entries.get_mut(id) {
            entry.use_it(is_used);
            self.schedule.make_ready(id);
        }
    }

    /// Returns whether the association has keys.
    #[must_use]
    pub fn is_agreed(&self, id: AssociationId) -> bool {
        self.entries.get(id).is_some_and(|entry| entry.is_agreed())
    }

    /// Returns the number of associations, failed ones and calls included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of incoming calls that have not agreed, those that have failed and are not dropped yet included.
    #[must_use]
    pub fn half_open(&self) -> usize {
        self.half_open.len()
    }

    /// Returns the endpoint's counters.
    #[must_use]
    pub fn statistics(&self) -> &EndpointStatistics {
        &self.statistics
    }

    /// Handles expired timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.schedule.next_due(now) {
            let Some(entry) = self.entries.get_mut(id) else { continue };
            let error = entry.handle_timeout(now, &self.config);
            let is_over = entry.is_over(now, &self.config);
            self.schedule.make_ready(id);
            if let Some(error) = error {
                self.fail(id, error);
            }
            if is_over {
                self.forget(id);
            }
        }
    }

    /// Writes the next datagram of a handshake into the empty `datagram`, and returns its destination. Sealed datagrams are the
    /// driver's to send.
    pub fn poll_transmit(&mut self, now: Instant, datagram: &mut Vec<u8>) -> Option<SocketAddr> {
        if let Some((to, notice)) = self.notices.pop_front() {
            datagram.extend_from_slice(&notice);
            return Some(to);
        }
        while let Some(id) = self.schedule.first_ready() {
            if let Some(entry) = self.entries.get_mut(id) {
                if let Some(to) = entry.poll_transmit(now, id.0, datagram) {
                    return Some(to);
                }
                let due = entry.poll_timeout(&self.config);
                self.schedule.first_is_done();
                self.schedule.set_timeout(id, due);
            } else {
                self.schedule.first_is_done();
            }
        }
        None
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.schedule.first_timeout()
    }

    fn forget(&mut self, id: AssociationId) {
        let Some(entry) = self.entries.remove(id) else { return };
        if let Some(name) = entry.name() {
            self.remove_name(name, id);
        }
        self.half_open.retain(|&other| other != id);
        self.schedule.forget(id);
    }

    /// Removes the name of an association, if it is its own.
    fn remove_name(&mut self, name: (SocketAddr, u32), id: AssociationId) {
        if self.by_peer.get(&name) == Some(&id) {
            self.by_peer.remove(&name);
        }
    }
}
