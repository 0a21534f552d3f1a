//! Engine side of a stream: its sending side, and the state reported to the application.

use std::net::SocketAddr;
use std::sync::Arc;

use timeous_core::{Instant, SubStream};
use timeous_dccp::{CloseReason, ConnectionId, Event, Statistics};
use timeous_kernel_tcp::{TcpSession, TcpView};
use timeous_ring::{Consumer, Payload};
use timeous_seal::{Intent, SealError};
use timeous_stream::{SendSide, Sessions, StreamId};

use crate::batch::Payloads;
use crate::config::StreamConfig;
use crate::inbox::Received;
use crate::shared::{SNAPSHOT_INTERVAL, Shared, Snapshot, Status};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: StreamId,
    pub(crate) sending: SendSide,
    shared: Arc<Shared>,
    /// Received data for which the application was not woken yet.
    readable: bool,
    unread: u64,
    /// TCP connection that carries the stream, if one does.
    tcp: Option<TcpView>,
    /// Last reported transport statistics.
    transport: Statistics,
    /// Whether the transport was told that the receive buffer is short.
    was_slow: bool,
    next_snapshot: Instant,
}

impl Session {
    pub(crate) fn new(id: StreamId, consumer: Consumer, config: &StreamConfig, shared: Arc<Shared>) -> Self {
        Self {
            id,
            sending: SendSide::new(consumer, Some((config.choice)()), config.repair),
            shared,
            readable: false,
            unread: 0,
            tcp: None,
            transport: Statistics::default(),
            was_slow: false,
            next_snapshot: Instant::ZERO,
        }
    }

    /// Sets the direction of the data for which the caller was admitted.
    pub(crate) fn set_intent(&self, intent: Intent) {
        self.shared.set_intent(intent);
    }

    /// Sets the stream that the caller has named.
    pub(crate) fn set_stream_id(&self, stream_id: &str) {
        self.shared.set_stream_id(stream_id);
    }

    /// Ends the stream: its packets cannot be encrypted.
    pub(crate) fn unsealed(&mut self, error: SealError) {
        if !self.sending.is_closed() {
            self.shared.set_seal_error(error);
            self.close(CloseReason::Unsealed);
        }
    }

    /// Notes that the handshake is complete.
    pub(crate) fn set_open(&self) {
        self.shared.set_status(Status::Open);
    }

    pub(crate) fn close(&mut self, reason: CloseReason) {
        if !self.sending.is_closed() {
            self.sending.close();
            self.shared.set_status(Status::Closed(reason));
        }
    }
}

impl Drop for Session {
    /// Tells the application, if the engine ends by a panic.
    fn drop(&mut self) {
        if !self.sending.is_closed() {
            self.shared.set_status(Status::Closed(CloseReason::Abandoned));
        }
    }
}

impl timeous_stream::Session for Session {
    type Connection = timeous_dccp::Connection;

    fn sending(&mut self) -> &mut SendSide {
        &mut self.sending
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        if let Event::Closed { reason } = event {
            return self.close(reason);
        }
        self.sending.handle_event(&event);
        match event {
            Event::Connected => self.set_open(),
            Event::Received(bytes) => self.received(now, SubStream::default(), bytes),
            Event::Moved { to, .. } => self.set_peer(to),
            Event::PacketSize { payload, is_black_hole } => {
                if is_black_hole {
                    let peer = self.shared.peer();
                    tracing::warn!(?peer, payload, "the path has swallowed larger packets: sending smaller ones");
                }
                self.shared.set_packet_payload(payload);
            }
            _ => {}
        }
    }

    /// A snapshot that was requested too early is taken as soon as it may be, whatever else happens.
    fn poll_timeout(&mut self) -> Option<Instant> {
        self.shared.is_snapshot_wanted().then_some(self.next_snapshot)
    }

    fn wants_report(&self, now: Instant) -> bool {
        now >= self.next_snapshot && self.shared.is_snapshot_wanted()
    }

    /// Takes a snapshot, if one was requested and the last one is old enough, or if it is the `last` one.
    fn report(&mut self, now: Instant, transport: &Statistics, last: bool) {
        self.transport = *transport;
        if last || self.wants_report(now) {
            self.shared.begin_snapshot();
            self.next_snapshot = now + SNAPSHOT_INTERVAL;
            self.shared.set_snapshot(Snapshot {
                transport: *transport,
                path: *self.sending.path(),
                queued_packets: self.sending.queued_packets(),
                queued_bytes: self.sending.queued_bytes(),
                buffer: self.sending.buffer(),
                repaired: self.sending.repaired(),
                repairs: self.sending.is_repair_allowed(),
                unread: self.unread,
                tcp: self.tcp,
            });
        }
    }

    /// Returns the free receive buffer, and whether the reader is slow, when the transport should learn of it.
    fn new_room(&mut self) -> Option<(usize, bool)> {
        // Only what was received fills the buffer.
        if !self.readable && !self.was_slow {
            return None;
        }
        let (room, is_slow) = self.shared.inbox.room();
        let is_told = !is_slow && !self.was_slow;
        self.was_slow = is_slow;
        (!is_told).then_some((if is_slow { room } else { usize::MAX }, is_slow))
    }

    /// Wakes the application for everything since the last wake-up.
    fn end_round(&mut self, now: Instant) {
        self.sending.drop_expired_losses(now);
        self.sending.drop_expired(now);
        self.sending.watch(now);
        if let Some(violation) = self.sending.violation() {
            self.shared.set_violation(violation);
        }
        if std::mem::take(&mut self.readable) {
            self.shared.readable.wake();
        }
        let advice = self.sending.poll_advice();
        let has_news = self.sending.take_news() || advice.is_some();
        if let Some(advice) = advice {
            self.shared.set_advice(advice);
        }
        if has_news {
            self.shared.writable.wake();
        }
    }
}

impl TcpSession for Session {
    fn id(&self) -> StreamId {
        self.id
    }

    fn statistics(&self) -> Statistics {
        self.transport
    }

    fn set_peer(&self, peer: SocketAddr) {
        self.shared.set_peer(peer);
    }

    fn received(&mut self, at: Instant, substream: SubStream, bytes: Vec<u8>) {
        self.unread += self.shared.inbox.push(Received { bytes, at, substream });
        self.readable = true;
    }

    fn peer_ended(&mut self) {
        self.shared.set_peer_ended();
        self.readable = true;
    }

    fn fail(&mut self, error: SealError) {
        self.unsealed(error);
    }

    fn set_view(&mut self, view: TcpView) {
        self.tcp = Some(view);
    }
}

impl Payloads for Sessions<Session> {
    fn payload(&self, connection: ConnectionId, token: u64) -> Option<Payload<'_>> {
        self.get(connection)?.sending.payload(token)
    }

    fn append(&mut self, connection: ConnectionId, token: u64, packet: &mut Vec<u8>) -> bool {
        let Some(session) = self.get_mut(connection) else { return false };
        let is_there = session.sending.payload(token).is_some();
        if is_there {
            session.sending.source().append(token, packet);
        }
        is_there
    }

    fn sent(&mut self, connection: ConnectionId, token: u64) {
        if let Some(session) = self.get_mut(connection) {
            session.sending.sent(token);
        }
    }

    fn expired(&mut self, connection: ConnectionId, token: u64) {
        if let Some(session) = self.get_mut(connection) {
            session.sending.expired(token);
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::Duration;
    use timeous_ring::Config;
    use timeous_stream::Session as _;

    use super::*;
    use crate::carrier::Carrier;

    /// It was taken at the next event of the stream, for which its application, blocked meanwhile, might have had to care.
    #[test]
    fn a_snapshot_that_is_requested_too_early_is_taken_when_it_may_be() {
        let (_producer, consumer) = timeous_ring::create(&Config::new(16)).unwrap();
        let shared = Shared::new().unwrap();
        let mut session = Session::new(StreamId(1), consumer, &StreamConfig::new(Carrier::Udp), shared.clone());
        let now = Instant::ZERO + Duration::from_secs(1);
        let transport = Statistics::default();
        shared.want_snapshot();
        session.report(now, &transport, false);
        assert_eq!(session.poll_timeout(), None);
        assert!(shared.want_snapshot());
        let early = now + Duration::from_millis(1);
        assert!(!session.wants_report(early));
        let due = session.poll_timeout().unwrap();
        assert_eq!(due, now + SNAPSHOT_INTERVAL);
        assert!(session.wants_report(due));
        session.report(due, &transport, false);
        assert!(shared.want_snapshot(), "the request is served");
    }
}
