//! Engine side of a stream: the transport's source of packets, and the state reported to the application.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use timeous_choice::Repair;
use timeous_core::{AduSource, DropReason, Duration, Instant, PathState, Rate, SubStream};
use timeous_dccp::{CloseReason, Event, Statistics};
use timeous_ring::{Consumer, Payload, RingSource};

use crate::carrier::CarrierView;
use crate::config::StreamConfig;
use crate::inbox::Received;
use crate::order::StreamId;
use crate::shared::{SNAPSHOT_INTERVAL, Shared, Snapshot, Status};

#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: StreamId,
    pub(crate) source: Repair<RingSource>,
    shared: Arc<Shared>,
    /// Close when the fate of every datagram is known.
    pub(crate) finishing: bool,
    pub(crate) closed: bool,
    /// Received data for which the application was not woken yet.
    readable: bool,
    /// Known fates or ring space for which the application was not woken yet.
    writable: bool,
    unread: u64,
    /// Carrier of the stream, and counters of late choice behind the ring.
    pub(crate) carrier: CarrierView,
    /// Last reported transport statistics.
    pub(crate) transport: Statistics,
    /// Whether the transport was told that the receive buffer is short.
    was_slow: bool,
    /// Last known path state: the Congestion Manager drops it with the connection.
    path: PathState,
    next_snapshot: Instant,
    /// Next expiry scan.
    next_pass: Instant,
}

/// Interval of expiry scans. Chosen by us: a higher value costs less time and notices expired ADUs later.
pub(crate) const PASS_INTERVAL: Duration = Duration::from_millis(100);

impl Session {
    pub(crate) fn new(id: StreamId, consumer: Consumer, config: &StreamConfig, shared: Arc<Shared>) -> Self {
        let ring = RingSource::with_choice(consumer, (config.choice)()).leaving_payloads_apart();
        Self {
            id,
            source: Repair::new(ring, config.repair),
            shared,
            finishing: false,
            closed: false,
            readable: false,
            writable: false,
            unread: 0,
            carrier: CarrierView::default(),
            transport: Statistics::default(),
            was_slow: false,
            path: PathState::default(),
            next_snapshot: Instant::ZERO,
            next_pass: Instant::ZERO,
        }
    }

    pub(crate) fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Incoming { .. } => {}
            // The peer's application does not read any more: queued data is dropped (RFC 4340 §11.7.2).
            Event::NotListening => self.source.close(),
            Event::Connected => self.shared.set_status(Status::Open),
            Event::Received(bytes) => {
                self.received(Received { bytes, at: now, substream: SubStream::default() });
            }
            Event::Acked { token, at } => {
                self.source.arrived(token, at);
                self.writable = true;
            }
            Event::Lost { token } => {
                self.source.lost(token);
                self.writable = true;
            }
            Event::Overdue { token } => self.source.overdue(token),
            Event::TakesRepeats => self.source.allow(),
            Event::Moved { to, .. } => self.set_peer(to),
            Event::Closed { reason } => self.close(reason),
        }
    }

    /// Sets the peer's address.
    pub(crate) fn set_peer(&self, peer: SocketAddr) {
        self.shared.set_peer(peer);
    }

    /// Queues a received datagram for the application.
    pub(crate) fn received(&mut self, received: Received) {
        self.unread += self.shared.inbox.push(received);
        self.readable = true;
    }

    pub(crate) fn close(&mut self, reason: CloseReason) {
        if !self.closed {
            self.closed = true;
            self.source.close();
            self.shared.set_status(Status::Closed(reason));
        }
    }

    /// Returns the free receive buffer, and whether the reader is slow, when the transport should learn of it.
    pub(crate) fn new_room(&mut self) -> Option<(usize, bool)> {
        let (room, is_slow) = self.shared.inbox.room();
        let is_told = !is_slow && !self.was_slow;
        self.was_slow = is_slow;
        (!is_told).then_some((if is_slow { room } else { usize::MAX }, is_slow))
    }

    /// Returns a payload that was left in the ring's memory.
    pub(crate) fn payload(&self, token: u64) -> Option<Payload<'_>> {
        self.source.inner().payload(token)
    }

    /// Notes a sent packet: the ring may have room.
    pub(crate) fn sent(&mut self, token: u64) {
        self.source.sent(token);
        self.writable = true;
    }

    /// Drops a pulled datagram that expired before it was sent.
    pub(crate) fn expired(&mut self, token: u64) {
        self.source.dropped(token, DropReason::Expired);
        self.writable = true;
    }

    /// Wakes the application later: the ring may have room, or fates are known.
    pub(crate) fn has_room(&mut self) {
        self.writable = true;
    }

    /// Handles the loss of the carrier, with all data in flight.
    pub(crate) fn carrier_gone(&mut self) {
        self.source.carrier_gone();
        let kept: BTreeSet<u64> = self
            .source
            .inner_mut()
            .consumer()
            .unsettled()
            .into_iter()
            .filter(|&token| self.source.keeps(token))
            .collect();
        self.source.inner_mut().lose_under_way(|token| kept.contains(&token));
        self.writable = true;
    }

    /// Returns whether the fate of every queued datagram is known.
    pub(crate) fn is_drained(&mut self, now: Instant) -> bool {
        !self.source.has_queued(now) && self.source.inner_mut().consumer().unsettled_len() == 0
    }

    /// Drops expired datagrams while sending is not allowed; returns `true` if others still wait.
    pub(crate) fn pass_expired(&mut self, now: Instant) -> bool {
        self.writable |= self.source.pass_expired(now);
        let ring = self.source.inner_mut();
        let waits = ring.consumer().has_queued();
        if waits && now >= self.next_pass {
            self.next_pass = now + PASS_INTERVAL;
            let before = ring.queued_len();
            ring.pass_expired(now);
            self.writable |= ring.queued_len() < before;
        }
        waits
    }

    /// Sets the source's rate.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        if let Some(adviser) = self.source.inner_mut().adviser() {
            adviser.set_rate(rate);
        }
    }

    /// Runs the late choice while sending is not allowed, and forwards its advice to the application.
    pub(crate) fn advise(&mut self, now: Instant) {
        let ring = self.source.inner_mut();
        ring.watch(now, &self.path);
        if let Some(advice) = ring.adviser().and_then(|adviser| adviser.poll_advice()) {
            self.shared.set_advice(advice);
            self.writable = true;
        }
    }

    /// Returns when the late choice wants to run.
    pub(crate) fn poll_watch(&mut self) -> Option<Instant> {
        self.source.inner_mut().poll_watch()
    }

    /// Requests a notification of new data, if the ring is empty; `true` if data was queued meanwhile, and the
    /// transport has to continue.
    pub(crate) fn stop_polling(&mut self) -> bool {
        !self.closed && self.source.inner_mut().stop_polling()
    }

    /// Wakes the application for everything since the last wake-up.
    pub(crate) fn wake(&mut self) {
        if let Some(violation) = self.source.inner().violation() {
            self.shared.set_violation(violation);
        }
        if std::mem::take(&mut self.readable) {
            self.shared.readable.wake();
        }
        if std::mem::take(&mut self.writable) {
            self.shared.writable.wake();
        }
    }

    /// Takes a snapshot, if one was requested and the last one is old enough, or if it is the `last` one.
    pub(crate) fn report(&mut self, now: Instant, transport: Statistics, path: Option<PathState>, last: bool) {
        self.path = path.unwrap_or(self.path);
        self.transport = transport;
        if last || (now >= self.next_snapshot && self.shared.wants_snapshot()) {
            self.next_snapshot = now + SNAPSHOT_INTERVAL;
            let ring = self.source.inner_mut();
            let (queued_packets, queued_bytes) = (ring.queued_len(), ring.queued_bytes());
            let buffer = ring.adviser().map(|adviser| adviser.state());
            let repairs = self.source.is_allowed();
            let (path, repaired, unread, carrier) = (self.path, self.source.repaired(), self.unread, self.carrier);
            self.shared.set_snapshot(Snapshot {
                transport,
                path,
                queued_packets,
                queued_bytes,
                buffer,
                repaired,
                repairs,
                unread,
                carrier,
            });
        }
    }
}
