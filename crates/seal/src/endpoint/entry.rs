//! One association in its endpoint: a handshake, then keys, then the time that it lingers.

use std::net::SocketAddr;

use timeous_core::{Duration, Instant};

use super::config::EndpointConfig;
use crate::access::Intent;
use crate::association::Association;
use crate::error::SealError;
use crate::handshake::Exchange;
use crate::migration::MigrationSecret;
use crate::session::Agreement;
use crate::wire::{Handshake, TOKEN_LEN};

#[derive(Debug)]
pub(super) struct Entry {
    remote: SocketAddr,
    /// Called by us: its end is reported.
    is_ours: bool,
    since: Instant,
    /// The handshake, while it may have something to send.
    exchange: Option<Exchange>,
    keys: Option<Association>,
    /// Both ends have proved who they are. A caller's keys seal before that, and open nothing.
    is_agreed: bool,
    /// Handshake bytes received, to acknowledge repetitions after the handshake.
    received: u16,
    peer_id: Option<u32>,
    id_to_acknowledge: Option<u32>,
    has_failed: bool,
    is_used: bool,
    /// Last datagram of the handshake, or authenticated packet for a connection.
    heard: Instant,
    /// Time since which the peer seems to have lost its keys, or not to encrypt.
    doubted: Option<(Instant, Doubt)>,
    /// Last time that the peer was asked whether it has its keys.
    asked: Option<Instant>,
    /// Time that the handshake has.
    patience: Duration,
    /// Stream that was agreed on; empty: none was named.
    stream_id: Box<str>,
    /// Direction of the data for which the caller was admitted.
    intent: Option<Intent>,
    /// Proof of the caller when the stream moves to another transport.
    migration: Option<MigrationSecret>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    Forgotten,
    Plain,
}

impl Entry {
    pub(super) fn handshaking(
        now: Instant,
        remote: SocketAddr,
        exchange: Exchange,
        (is_ours, patience): (bool, Duration),
    ) -> Self {
        Self {
            patience,
            stream_id: Box::default(),
            intent: None,
            migration: None,
            remote,
            is_ours,
            since: now,
            peer_id: exchange.peer_id(),
            exchange: Some(exchange),
            keys: None,
            is_agreed: false,
            received: 0,
            id_to_acknowledge: None,
            has_failed: false,
            is_used: false,
            heard: now,
            doubted: None,
            asked: None,
        }
    }

    pub(super) fn agreed(now: Instant, remote: SocketAddr, keys: Association) -> Self {
        Self {
            patience: Duration::ZERO,
            stream_id: Box::default(),
            intent: None,
            remote,
            is_ours: false,
            since: now,
            exchange: None,
            keys: Some(keys),
            is_agreed: true,
            migration: None,
            received: 0,
            peer_id: None,
            id_to_acknowledge: None,
            has_failed: false,
            is_used: false,
            heard: now,
            doubted: None,
            asked: None,
        }
    }

    pub(super) fn since(&self) -> Instant {
        self.since
    }

    /// Returns what the peer's datagrams can be told by: its address, and its own identifier once that is known.
    pub(super) fn name(&self) -> Option<(SocketAddr, u32)> {
        self.peer_id.map(|peer| (self.remote, peer))
    }

    pub(super) fn is_agreed(&self) -> bool {
        self.is_agreed
    }

    /// Returns whether it has keys to seal with.
    pub(super) fn can_seal(&self) -> bool {
        self.keys.is_some()
    }

    /// Returns whether the call has failed.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns whether the application knows of it: a call of ours, or one that has agreed.
    pub(super) fn is_reported(&self) -> bool {
        self.is_ours || self.is_agreed
    }

    pub(super) fn stream_id(&self) -> &str {
        &self.stream_id
    }

    pub(super) fn intent(&self) -> Option<Intent> {
        self.intent
    }

    pub(super) fn migration(&self) -> Option<&MigrationSecret> {
        self.migration.as_ref()
    }

    /// Returns the number of handshake bytes received.
    pub(super) fn received(&self) -> u16 {
        self.received
    }

    /// Returns whether a call of ours to `remote` has no answer yet.
    pub(super) fn calls(&self, remote: SocketAddr) -> bool {
        self.is_ours && self.remote == remote && self.received == 0 && !self.has_failed
    }

    /// Ends the association, without telling the peer.
    pub(super) fn give_up(&mut self, now: Instant) {
        self.exchange = None;
        self.has_failed = true;
        self.since = now;
    }

    pub(super) fn use_it(&mut self, is_used: bool) {
        self.is_used = is_used;
    }

    /// Processes a handshake datagram; returns what was agreed on, once.
    pub(super) fn handle_handshake(
        &mut self,
        now: Instant,
        from: SocketAddr,
        handshake: &Handshake<'_>,
        len: usize,
    ) -> Result<Option<Agreement>, SealError> {
        if self.peer_id.is_some_and(|peer| peer != handshake.from) {
            return Ok(None);
        }
        let Some(exchange) = &mut self.exchange else {
            // Our acknowledgement of the last bytes was lost.
            if !handshake.bytes.is_empty() {
                self.id_to_acknowledge = self.peer_id;
            }
            return Ok(None);
        };
        // Handshake datagrams are not authenticated: after the agreement they are acknowledgements only.
        let is_settled = self.is_agreed || self.has_failed;
        if !is_settled {
            self.heard = now;
            self.doubted = None;
            // A caller behind a NAT may come from another address now; only the peer knows our identifier.
            if !self.is_ours && handshake.to != 0 && self.remote != from {
                self.remote = from;
                exchange.move_caller();
            }
        }
        let handled = exchange.handle(handshake, len);
        self.peer_id = exchange.peer_id();
        self.received = exchange.received();
        if let (Some(secrets), Some(peer)) = (exchange.take_early_keys(), self.peer_id) {
            self.keys = Some(Association::new(peer, &secrets));
        }
        let agreement = exchange.take_agreement();
        if let (Some(agreement), Some(peer)) = (&agreement, self.peer_id) {
            self.keys.get_or_insert_with(|| Association::new(peer, &agreement.secrets));
            self.stream_id = agreement.stream_id.as_str().into();
            self.intent = Some(agreement.intent);
            self.is_agreed = true;
            self.migration = Some(agreement.migration.clone());
        }
        if self.is_agreed && exchange.is_done() {
            self.exchange = None;
        }
        if is_settled {
            return Ok(None);
        }
        if handled.is_err() {
            self.has_failed = true;
            self.since = now;
        }
        handled.map(|()| agreement)
    }

    pub(super) fn retry(&mut self, from: SocketAddr, token: [u8; TOKEN_LEN]) -> bool {
        if from != self.remote {
            return false;
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.retry(token);
        }
        true
    }

    /// Notes that the peer says that it does not encrypt.
    pub(super) fn seems_plain(&mut self, now: Instant, from: SocketAddr) {
        if from == self.remote && self.is_ours && self.received == 0 {
            self.doubted.get_or_insert((now, Doubt::Plain));
        }
    }

    /// Notes that the peer says that it does not know the association; returns whether the peer has to be asked. Soon after it was, the
    /// notice counts for nothing: each costs a packet in both directions, and may be forged.
    pub(super) fn doubt(&mut self, now: Instant, config: &EndpointConfig) -> bool {
        let is_early = self.asked.is_some_and(|asked| now - asked < config.doubt);
        let is_news = self.is_agreed && !self.has_failed && self.doubted.is_none() && !is_early;
        if is_news {
            self.doubted = Some((now, Doubt::Forgotten));
            self.asked = Some(now);
        }
        is_news
    }

    pub(super) fn open(&mut self, now: Instant, datagram: &[u8], packet: &mut Vec<u8>) -> bool {
        let Some(keys) = self.keys.as_mut().filter(|_| self.is_agreed && !self.has_failed) else { return false };
        if keys.open(datagram, packet).is_none() {
            return false;
        }
        // A peer whose packets no connection takes does not keep the association.
        if self.is_used {
            self.heard = now;
        }
        self.doubted = None;
        // A listener that sends packets has read all of the handshake; a caller may not have the answer yet.
        if self.is_ours
            && let Some(exchange) = self.exchange.take()
            && exchange.owes_acknowledgement()
        {
            self.id_to_acknowledge = self.peer_id;
        }
        true
    }

    /// Returns whether the association has to end: its integrity limit is reached.
    pub(super) fn is_exhausted(&self) -> bool {
        !self.has_failed && self.keys.as_ref().is_some_and(Association::is_exhausted)
    }

    pub(super) fn seal(&mut self, datagram: &mut Vec<u8>) -> bool {
        let Some(keys) = self.keys.as_mut().filter(|_| !self.has_failed) else { return false };
        keys.seal(datagram);
        true
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, config: &EndpointConfig) -> Option<SealError> {
        if let Some(exchange) = &mut self.exchange {
            exchange.handle_timeout(now);
        }
        if self.has_failed {
            return None;
        }
        let error = match self.doubted {
            Some((since, doubt)) if now - since >= config.doubt => match doubt {
                Doubt::Forgotten => SealError::Forgotten,
                Doubt::Plain => SealError::PeerIsPlain,
            },
            _ if !self.is_agreed && now - self.since >= self.patience => SealError::NoAnswer,
            _ => return None,
        };
        // There is nobody to tell.
        self.give_up(now);
        Some(error)
    }

    /// Returns whether the association can be dropped.
    pub(super) fn is_over(&self, now: Instant, config: &EndpointConfig) -> bool {
        match (self.has_failed, &self.exchange) {
            (true, None) => true,
            (true, Some(exchange)) => exchange.is_done() || now - self.since >= config.linger,
            (false, _) => self.is_agreed && !self.is_used && now - self.heard >= config.linger,
        }
    }

    /// Writes the next datagram of the handshake; `own` is the association's identifier.
    pub(super) fn poll_transmit(&mut self, now: Instant, own: u32, datagram: &mut Vec<u8>) -> Option<SocketAddr> {
        if let Some(exchange) = &mut self.exchange {
            let has_written = exchange.poll_transmit(now, datagram);
            if !has_written && self.is_agreed && exchange.is_done() {
                self.exchange = None;
            }
            return has_written.then_some(self.remote);
        }
        let to = self.id_to_acknowledge.take()?;
        let acknowledgement =
            Handshake { to, from: own, offset: 0, acknowledged: self.received, token: &[], bytes: &[] };
        acknowledgement.write(0, datagram);
        Some(self.remote)
    }

    pub(super) fn poll_timeout(&self, config: &EndpointConfig) -> Option<Instant> {
        let exchange = self.exchange.as_ref().and_then(Exchange::poll_timeout);
        let doubt = self.doubted.map(|(since, _)| since + config.doubt);
        let end = match (self.has_failed, self.is_agreed) {
            (true, _) => Some(self.since + config.linger),
            (false, false) => Some(self.since + self.patience),
            (false, true) => (!self.is_used).then_some(self.heard + config.linger),
        };
        exchange.into_iter().chain(doubt).chain(end).min()
    }
}
