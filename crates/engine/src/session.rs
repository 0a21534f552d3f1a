//! The engine's side of a stream: the source its transport pulls from, and what the application is told.

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
    /// To be closed when everything has its fate.
    pub(crate) finishing: bool,
    pub(crate) closed: bool,
    /// Something has come that the application was not woken for.
    readable: bool,
    /// Fates are known, or the ring has room, that the application was not woken for.
    writable: bool,
    unread: u64,
    /// What carries it, and what late choice did behind the ring.
    pub(crate) carrier: CarrierView,
    /// What was counted last.
    pub(crate) transport: Statistics,
    /// Whether the transport was told that room is short.
    was_slow: bool,
    /// The last that was known of the path: the Congestion Manager forgets it with the connection.
    path: PathState,
    next_snapshot: Instant,
    /// When it is looked for expired data in the ring again.
    next_pass: Instant,
}

/// How often that is.
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
            // What is queued will never be wanted.
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

    /// The peer has this address.
    pub(crate) fn set_peer(&self, peer: SocketAddr) {
        self.shared.set_peer(peer);
    }

    /// A datagram has come.
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

    /// What the application has room for, if that has changed so much that the transport should know.
    pub(crate) fn new_room(&mut self) -> Option<(usize, bool)> {
        let (room, is_slow) = self.shared.inbox.room();
        let is_told = !is_slow && !self.was_slow;
        self.was_slow = is_slow;
        (!is_told).then_some((if is_slow { room } else { usize::MAX }, is_slow))
    }

    /// Where the payload lies that was left apart.
    pub(crate) fn payload(&self, token: u64) -> Option<Payload<'_>> {
        self.source.inner().payload(token)
    }

    /// Something left: there may be room in the ring.
    pub(crate) fn sent(&mut self, token: u64) {
        self.source.sent(token);
        self.writable = true;
    }

    /// What was pulled went stale before it could leave.
    pub(crate) fn expired(&mut self, token: u64) {
        self.source.dropped(token, DropReason::Expired);
        self.writable = true;
    }

    /// There may be room in the ring, or fates to be heard.
    pub(crate) fn has_room(&mut self) {
        self.writable = true;
    }

    /// What carried it is gone, with all that was under way.
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

    /// Whether everything that was queued has its fate.
    pub(crate) fn is_drained(&mut self, now: Instant) -> bool {
        !self.source.has_queued(now) && self.source.inner_mut().consumer().unsettled_len() == 0
    }

    /// Frees the places of what has expired while nothing may be sent; `true` if something still waits.
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

    /// The source has this rate from now on.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        if let Some(adviser) = self.source.inner_mut().adviser() {
            adviser.set_rate(rate);
        }
    }

    /// Lets the choice look where nothing may leave, and tells the application what it advises.
    pub(crate) fn advise(&mut self, now: Instant) {
        let ring = self.source.inner_mut();
        ring.watch(now, &self.path);
        if let Some(advice) = ring.adviser().and_then(|adviser| adviser.poll_advice()) {
            self.shared.set_advice(advice);
            self.writable = true;
        }
    }

    /// When the choice wants to look.
    pub(crate) fn poll_watch(&mut self) -> Option<Instant> {
        self.source.inner_mut().poll_watch()
    }

    /// Asks to be told of new data, if there is none; `true` if some came in meanwhile, and the transport has to look.
    pub(crate) fn stop_polling(&mut self) -> bool {
        !self.closed && self.source.inner_mut().stop_polling()
    }

    /// Wakes the application for what has happened since it was last woken.
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

    /// Writes down what is known, if somebody has asked and it was not done just now, or if it is the `last` time.
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
