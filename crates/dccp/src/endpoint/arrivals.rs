//! Demultiplexing of received packets, and refusal of those of no connection (RFC 4340 §8.5 steps 2 and 3).

use timeous_cm::Manager;
use timeous_core::{Ecn, Instant, Misuse, Transport};
use timeous_transport::ConnectionId;

use super::Endpoint;
use super::moved::Stray;
use super::route::{FlowKey, Route};
use crate::connection::refusal::refusal;
use crate::connection::{Config, Connection};
use crate::packet::{Body, Header, Packet};
use crate::reset::{ResetCode, ResetReason};
use crate::service::ServiceCode;

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
        self.fed(now)?;
        let route = from.into();
        let encapsulation = route.encapsulation(self.table.config.connection.encapsulation);
        let Ok(packet) = Packet::parse(datagram, encapsulation) else {
            self.table.statistics.malformed += 1;
            return Ok(());
        };
        let header = &packet.header;
        let key = FlowKey { route, remote_port: header.source_port, local_port: header.dest_port };
        let id = match self.table.find(&key) {
            Some(id) => id,
            None => match self.owner(now, cm, key, header, datagram.len()) {
                Ok(Some(id)) => id,
                Ok(None) => return Ok(()),
                Err(code) => {
                    self.refuse(now, &key, header, code);
                    return Ok(());
                }
            },
        };
        self.update(id, |connection| connection.handle_datagram(now, cm, datagram, ecn))
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
        self.fed(now)?;
        let route = from.into();
        let encapsulation = route.encapsulation(self.table.config.connection.encapsulation);
        let Ok(packet) = Packet::parse(datagram, encapsulation) else { return Ok(()) };
        let header = &packet.header;
        if matches!(header.body, Body::Request { .. }) {
            self.table.statistics.refused += 1;
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
                self.table.statistics.stray += 1;
                Err(ResetCode::NoConnection)
            }
        }
    }

    /// Begins a connection for a Request, or returns the Reset Code to refuse it with.
    fn admit(&mut self, now: Instant, key: FlowKey, service: ServiceCode) -> Result<ConnectionId, ResetCode> {
        let config = self.admits(&key, service).inspect_err(|_| self.table.statistics.refused += 1)?;
        let config = Config { encapsulation: key.route.encapsulation(config.encapsulation), ..config };
        let incoming = self.table.add_incoming(now, key, |endpoint, rng| {
            let destination = key.route.destination(endpoint.dscp);
            Connection::listen(now, config, key.local_port, &[service], destination, rng)
        });
        incoming.ok_or(ResetCode::TooBusy)
    }

    /// Returns the settings of a connection for a Request, or the Reset Code to refuse it with.
    fn admits(&self, key: &FlowKey, service: ServiceCode) -> Result<Config, ResetCode> {
        // "If no socket, or S.state == TIMEWAIT, Generate Reset(No Connection)" (step 2).
        if self.protocol.lingering.contains(key) {
            return Err(ResetCode::NoConnection);
        }
        let listener = self.protocol.listeners.get(&key.local_port).ok_or(ResetCode::ConnectionRefused)?;
        if !service.is_valid() || !listener.services.contains(&service) {
            return Err(ResetCode::BadServiceCode);
        }
        if listener.room == Some(0) {
            return Err(ResetCode::TooBusy);
        }
        Ok(listener.config.clone())
    }

    /// Answers a packet that belongs to no connection, within the limits (§8.1.3, §8.3.1).
    ///
    /// A raw IP socket sees the packets of the whole host, those of other programs included: only packets to ports
    /// known to be ours are answered.
    fn refuse(&mut self, now: Instant, key: &FlowKey, header: &Header, code: ResetCode) {
        let is_ours = self.protocol.listeners.contains_key(&key.local_port) || self.protocol.lingering.contains(key);
        if key.route.local().is_some() && !is_ours {
            return;
        }
        if let Some(reset) = refusal(header, ResetReason::plain(code)) {
            self.table.refuse(now, (key.route, reset));
        }
    }
}
