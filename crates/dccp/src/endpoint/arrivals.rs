//! Demultiplexing of received packets, and refusal of those of no connection (RFC 4340 §8.5 steps 2 and 3).

use timeous_cm::Manager;
use timeous_core::{Ecn, Instant, Misuse, RecvMeta, Transport};
use timeous_transport::ConnectionId;

use super::Endpoint;
use super::cookies::{Cookie, Cookies};
use super::moved::Stray;
use super::ports::Answer;
use super::route::{FlowKey, Route};
use crate::connection::refusal::refusal;
use crate::connection::{Config, Connection};
use crate::options::Opt;
use crate::packet::{Body, Header, Packet};
use crate::reset::{ResetCode, ResetReason};
use crate::seq::Seq;
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
        meta: impl Into<RecvMeta>,
    ) -> Result<(), Misuse> {
        self.fed(now)?;
        let (route, meta) = (from.into(), meta.into());
        let encapsulation = route.encapsulation(self.table.config.connection.encapsulation);
        let Ok(packet) = Packet::parse(datagram, encapsulation) else {
            self.table.statistics.malformed += 1;
            return Ok(());
        };
        let header = &packet.header;
        let key = FlowKey { route, remote_port: header.source_port, local_port: header.dest_port };
        let id = match self.table.find(&key) {
            Some(id) => id,
            None => match self.owner(now, cm, key, &packet, datagram) {
                Ok(Some(id)) => id,
                Ok(None) => return Ok(()),
                Err(code) => {
                    self.refuse(now, &key, header, (code, meta.ecn));
                    return Ok(());
                }
            },
        };
        self.update(id, |connection| connection.handle_datagram(now, cm, datagram, meta))
    }

    /// Refuses a Request that may not be taken and came with this ECN field, with a Reset of this `code`; ignores any
    /// other datagram.
    ///
    /// # Errors
    /// [`Misuse`] if `now` is before an earlier call's.
    pub fn refuse_request(
        &mut self,
        now: Instant,
        from: impl Into<Route>,
        (datagram, ecn): (&[u8], Ecn),
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
            self.refuse(now, &key, header, (code, ecn));
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
        packet: &Packet<'_>,
        datagram: &[u8],
    ) -> Result<Option<ConnectionId>, ResetCode> {
        let header = &packet.header;
        if let Body::Request { service } = header.body {
            return self.admit(now, cm, key, service, (packet, datagram));
        }
        if let Some(cookie) = self.cookie(packet) {
            return self.resume(now, cm, key, cookie).map(Some);
        }
        match self.follow(now, cm, &key, header, datagram.len()) {
            Stray::Moved(id) => Ok(Some(id)),
            Stray::Unproved => Ok(None),
            Stray::Unknown => {
                self.table.statistics.stray += 1;
                Err(ResetCode::NoConnection)
            }
        }
    }

    /// Begins a connection for a Request, or returns the Reset Code to refuse it with. `None`: a cookie carries all of it.
    fn admit(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        key: FlowKey,
        service: ServiceCode,
        (packet, datagram): (&Packet<'_>, &[u8]),
    ) -> Result<Option<ConnectionId>, ResetCode> {
        let config = self.admits(&key, service).inspect_err(|_| self.table.statistics.refused += 1)?;
        if !self.table.is_crowded(now) {
            let incoming = self.table.add_incoming(now, key, |endpoint, rng| {
                let destination = endpoint.destination(key.route.remote().ip());
                Connection::listen(now, config, key.local_port, &[service], destination, rng)
            });
            return incoming.ok_or(ResetCode::TooBusy).map(Some);
        }
        let destination = self.table.config.destination(key.route.remote().ip());
        let Self(timeous_transport::Endpoint { protocol, table, .. }) = self;
        let rng = table.rng();
        let cookies = protocol.cookies.get_or_insert_with(|| Cookies::new(rng));
        if !cookies.may_answer(now, &key) {
            table.statistics.refused += 1;
            return Ok(None);
        }
        let (iss, options) = (Seq::new(rng.next_u64()), packet.options);
        let cookie = cookies.seal(now, &key, &Cookie { iss, request: packet.header.seq, service, options });
        let Some(cookie) = cookie else {
            table.statistics.refused += 1;
            return Err(ResetCode::TooBusy);
        };
        let config = Config { initial_seq: Some(iss), ..config };
        let mut connection = Connection::listen(now, config, key.local_port, &[service], destination, rng);
        let response = connection.respond(now, cm, datagram, Some(&cookie));
        table.statistics.cookies += 1;
        table.answer((key.route, Answer::Response(response)));
        Ok(None)
    }

    /// Returns the cookie that a client's packet carries, if this endpoint has made any.
    fn cookie<'a>(&self, packet: &Packet<'a>) -> Option<&'a [u8]> {
        let is_late = !matches!(packet.header.body, Body::Ack { .. } | Body::DataAck { .. });
        if self.protocol.cookies.is_none() || is_late {
            return None;
        }
        packet.options().flatten().find_map(|item| match item.opt {
            Opt::InitCookie(cookie) => Some(cookie),
            _ => None,
        })
    }

    /// Begins the connection that a cookie describes, as it was when its Response had been sent.
    fn resume(
        &mut self,
        now: Instant,
        cm: &mut Manager,
        key: FlowKey,
        cookie: &[u8],
    ) -> Result<ConnectionId, ResetCode> {
        let cookie = self.protocol.cookies.as_ref().and_then(|cookies| cookies.open(now, &key, cookie));
        let Some(cookie) = cookie else {
            self.table.statistics.stray += 1;
            return Err(ResetCode::BadInitCookie);
        };
        let config = self.admits(&key, cookie.service).inspect_err(|_| self.table.statistics.refused += 1)?;
        let config = Config { initial_seq: Some(cookie.iss), ..config };
        let incoming = self.table.add_validated(now, key, |endpoint, rng| {
            let (destination, services) = (endpoint.destination(key.route.remote().ip()), &[cookie.service]);
            let request = cookie.request(&key, config.encapsulation);
            let mut connection = Connection::listen(now, config, key.local_port, services, destination, rng);
            // The client has this Response.
            connection.respond(now, cm, &request, None);
            connection
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
        Ok(Config { encapsulation: key.route.encapsulation(listener.config.encapsulation), ..listener.config.clone() })
    }

    /// Answers a packet that belongs to no connection, within the limits (§8.1.3, §8.3.1).
    ///
    /// A raw IP socket sees the packets of the whole host, those of other programs included: only packets to ports
    /// known to be ours are answered. A Request for the service [`ServiceCode::PROBE`] is told its ECN field.
    fn refuse(&mut self, now: Instant, key: &FlowKey, header: &Header, (code, ecn): (ResetCode, Ecn)) {
        let is_ours = self.protocol.listeners.contains_key(&key.local_port) || self.protocol.lingering.contains(key);
        if key.route.local().is_some() && !is_ours {
            return;
        }
        let is_probe = matches!(header.body, Body::Request { service: ServiceCode::PROBE });
        let (reason, own) = match is_probe {
            true => (ResetReason::with_ecn(code, ecn), Ecn::Ect0),
            false => (ResetReason::plain(code), Ecn::NotEct),
        };
        if let Some(reset) = refusal(header, reason) {
            self.table.refuse(now, (key.route, Answer::Reset(reset, own)));
        }
    }
}
