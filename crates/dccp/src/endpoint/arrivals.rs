//! Demultiplexing of received packets, and refusal of those of no connection (RFC 4340 §8.5 steps 2 and 3).

use timeous_cm::Manager;
use timeous_core::{Ecn, Instant, Misuse, Transport};

use super::moved::Stray;
use super::{ConnectionId, Endpoint, FlowKey, Route};
use crate::connection::refusal::refusal;
use crate::connection::{Config, Connection};
use crate::packet::{Body, Header, Packet};
use crate::reset::{ResetCode, ResetReason};
use crate::service::ServiceCode;

/// Maximum number of refusals queued. Chosen by us: it bounds memory under a flood; a higher value refuses more
/// callers.
const MAX_REFUSALS: usize = 256;

impl Endpoint {
    /// Processes a datagram received from the UDP address `from`, or by a native [`Route`].
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        from: impl Into<Route>,
        datagram: &[u8],
        ecn: Ecn,
    ) -> Result<(), Misuse> {
        self.order.fed(now)?;
        self.reap(now);
        let route = from.into();
        let encapsulation = route.encapsulation(self.config.connection.encapsulation);
        let Ok(packet) = Packet::parse(datagram, encapsulation) else {
            self.statistics.malformed += 1;
            return Ok(());
        };
        let header = &packet.header;
        let key = FlowKey { route, remote_port: header.source_port, local_port: header.dest_port };
        let id = match self.keys.get(&key) {
            Some(&id) => id,
            None => match self.owner(now, cm, key, header, datagram.len()) {
                Ok(Some(id)) => id,
                Ok(None) => return Ok(()),
                Err(code) => {
                    self.refuse(now, &key, header, code);
                    return Ok(());
                }
            },
        };
        if let Some(slot) = self.slots.get_mut(id) {
            slot.connection.handle_datagram(now, cm, datagram, ecn)?;
            self.after(id);
        }
        Ok(())
    }

    /// Refuses a Request that may not be taken, with a Reset of this `code`; ignores any other datagram.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn refuse_request(
        &mut self,
        now: Instant,
        from: impl Into<Route>,
        datagram: &[u8],
        code: ResetCode,
    ) -> Result<(), Misuse> {
        self.order.fed(now)?;
        let route = from.into();
        let encapsulation = route.encapsulation(self.config.connection.encapsulation);
        let Ok(packet) = Packet::parse(datagram, encapsulation) else { return Ok(()) };
        let header = &packet.header;
        if matches!(header.body, Body::Request { .. }) {
            self.statistics.refused += 1;
            let key = FlowKey { route, remote_port: header.source_port, local_port: header.dest_port };
            self.refuse(now, &key, header, code);
        }
        Ok(())
    }

    /// Finds the connection of a packet that matches none by address: a new one, or one whose peer has moved; `None` if
    /// the peer's new address is not verified yet. An error is the Reset Code to refuse it with.
    fn owner(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        key: FlowKey,
        header: &Header,
        len: usize,
    ) -> Result<Option<ConnectionId>, ResetCode> {
        if let Body::Request { service } = header.body {
            return self.admit(now, key, service).map(Some);
        }
        match self.follow(now, cm, &key, header, len) {
            Stray::Moved(id) => Ok(Some(id)),
            Stray::Unproved => Ok(None),
            Stray::Unknown => {
                self.statistics.stray += 1;
                Err(ResetCode::NoConnection)
            }
        }
    }

    /// Begins a connection for a Request, or returns the Reset Code to refuse it with.
    fn admit(&mut self, now: Instant, key: FlowKey, service: ServiceCode) -> Result<ConnectionId, ResetCode> {
        if let Err(code) = self.admits(&key, service) {
            self.statistics.refused += 1;
            return Err(code);
        }
        if self.half_open.len() >= self.config.max_half_open && !self.evict(now) {
            self.statistics.refused += 1;
            return Err(ResetCode::TooBusy);
        }
        let config = self.listeners.get(&key.local_port).map_or(&self.config.connection, |listener| &listener.config);
        let encapsulation = key.route.encapsulation(config.encapsulation);
        let config = Config { encapsulation, ..config.clone() };
        let destination = self.destination(key.route);
        let connection = Connection::listen(now, config, key.local_port, &[service], destination, &mut self.rng);
        let id = self.add(now, key, connection);
        self.half_open.insert(id);
        Ok(id)
    }

    fn admits(&self, key: &FlowKey, service: ServiceCode) -> Result<(), ResetCode> {
        // "If no socket, or S.state == TIMEWAIT, Generate Reset(No Connection)" (step 2).
        if self.lingering.contains(key) {
            return Err(ResetCode::NoConnection);
        }
        let listener = self.listeners.get(&key.local_port).ok_or(ResetCode::ConnectionRefused)?;
        if !service.is_valid() || !listener.services.contains(&service) {
            return Err(ResetCode::BadServiceCode);
        }
        if listener.room == Some(0) || self.slots.len() >= self.config.max_connections {
            return Err(ResetCode::TooBusy);
        }
        Ok(())
    }

    /// Drops the oldest half-open connection for a new one, if it is old enough. It has no flow yet, and its client is
    /// refused if it comes back.
    fn evict(&mut self, now: Instant) -> bool {
        let oldest = self.half_open.first().and_then(|id| Some((*id, self.slots.get(*id)?.since)));
        let Some((oldest, _)) = oldest.filter(|&(_, since)| now - since >= self.config.half_open_patience) else {
            return false;
        };
        self.statistics.evicted += 1;
        self.remove(oldest);
        true
    }

    /// Answers a packet that belongs to no connection, within the limits (§8.1.3, §8.3.1).
    ///
    /// A raw IP socket sees the packets of the whole host, those of other programs included: only packets to ports
    /// known to be ours are answered.
    fn refuse(&mut self, now: Instant, key: &FlowKey, header: &Header, code: ResetCode) {
        let is_ours = self.listeners.contains_key(&key.local_port) || self.lingering.contains(key);
        if key.route.local().is_some() && !is_ours {
            return;
        }
        if let Some(reset) = refusal(header, ResetReason::plain(code))
            && self.refusals.len() < MAX_REFUSALS
            && self.refusal_rate.take(now)
        {
            self.statistics.resets_sent += 1;
            self.refusals.push_back((key.route, reset));
        }
    }
}
