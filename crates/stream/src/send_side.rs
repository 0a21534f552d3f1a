//! Sending side of a stream: packet ring, late choice and retransmission, from the first packet to the last fate.

use std::collections::BTreeSet;

use timeous_choice::Repair;
use timeous_core::{
    AduSource, Advice, BufferState, DropReason, Duration, Instant, LateChoice, PathState, Priority, Rate,
};
use timeous_ring::{Consumer, Payload, RingSource, Violation};
use timeous_transport::Event;

use crate::fragments::{self, Fragments};

/// Interval of expiry scans. Chosen by us: a higher value costs less time and notices expired ADUs later.
pub const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// Sending side of a stream, above its transport. Times are those of the calls; nothing here reads a clock.
///
/// ```
/// use timeous_core::{AduMeta, Instant, PathState};
/// use timeous_ring::create;
/// use timeous_stream::{SendSide, ring_settings};
/// let (mut producer, consumer) = create(&ring_settings(8, 1_400)).unwrap();
/// let mut sending = SendSide::new(consumer, None, None);
/// producer.enqueue(&AduMeta::default(), b"hello").unwrap();
/// sending.finish();
/// assert!(!sending.take_finished(Instant::ZERO), "the ADU has no fate yet");
/// let mut packet = Vec::new();
/// let mut pulled = sending.source().pull(Instant::ZERO, &PathState::default(), 1_400, &mut packet).unwrap();
/// pulled.gather(sending.source(), &mut packet);
/// assert_eq!(packet, b"hello");
/// sending.sent(pulled.token);
/// sending.source().acked(pulled.token);
/// assert!(sending.take_finished(Instant::ZERO));
/// ```
#[derive(Debug)]
pub struct SendSide {
    source: Repair<Fragments<RingSource>>,
    /// Close when the fate of every ADU is known.
    finishing: bool,
    closed: bool,
    /// Fates became known or slots free since the last [`take_news`](Self::take_news).
    has_news: bool,
    /// Last known path state: the Congestion Manager drops it with the connection.
    path: PathState,
    /// Next expiry scan.
    next_scan: Instant,
}

impl SendSide {
    /// Creates the sending side of a ring, with a policy for late choice, which runs at the instant of sending. Lost ADUs of at least the
    /// priority `repair` are retransmitted; `None`: no retransmission. Payloads stay in the ring's memory: see [`payload`](Self::payload).
    pub fn new(consumer: Consumer, choice: Option<Box<dyn LateChoice>>, repair: Option<Priority>) -> Self {
        let mut ring = RingSource::new(consumer).leaving_payloads_apart();
        ring.set_choice(choice);
        Self {
            source: Repair::new(Fragments::new(ring), repair),
            finishing: false,
            closed: false,
            has_news: false,
            path: PathState::default(),
            next_scan: Instant::ZERO,
        }
    }

    fn ring(&mut self) -> &mut RingSource {
        self.source.inner_mut().inner_mut()
    }

    /// Returns the source from which the transport pulls.
    pub fn source(&mut self) -> &mut dyn AduSource {
        &mut self.source
    }

    /// Returns the source, for a transport whose driver has room for this many packets at this instant.
    pub fn source_with_room(&mut self, packets: u32) -> &mut dyn AduSource {
        self.ring().has_room_for(packets);
        &mut self.source
    }

    /// Processes what an event of the transport means for sent ADUs.
    pub fn handle_event<R>(&mut self, event: &Event<R>) {
        match *event {
            // The peer's application does not read any more: queued data is dropped (RFC 4340 §11.7.2).
            Event::NotListening => self.source.close(),
            Event::Acked { token, at, exactly } => {
                self.source.arrived(token, at, exactly);
                self.has_news = true;
            }
            Event::Lost { token } => {
                self.source.lost(token);
                self.has_news = true;
            }
            Event::Overdue { token } => self.source.overdue(token),
            Event::TakesRepeats => self.source.allow(),
            Event::TakesFragments => self.source.inner_mut().allow(),
            Event::Closed { .. } => self.close(),
            _ => {}
        }
    }

    /// Notes that a pulled ADU was given to the device.
    pub fn sent(&mut self, token: u64) {
        self.source.sent(token);
        self.has_news = true;
    }

    /// Drops a pulled ADU that expired before it was sent.
    pub fn expired(&mut self, token: u64) {
        self.source.dropped(token, DropReason::Expired);
        self.has_news = true;
    }

    /// Returns a payload that was left in the ring's memory, until it was `sent`.
    pub fn payload(&self, token: u64) -> Option<Payload<'_>> {
        self.source.inner().inner().payload(fragments::inner(token))
    }

    /// Requests a close once the fate of every ADU is known.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Returns, once, whether a close was requested, for a transport that itself waits until all data has arrived.
    pub fn take_finish(&mut self) -> bool {
        !self.closed && std::mem::take(&mut self.finishing)
    }

    /// Returns, once, whether a close was requested and the fate of every ADU is known.
    pub fn take_finished(&mut self, now: Instant) -> bool {
        let is_finished = self.is_finished(now);
        self.finishing &= !is_finished;
        is_finished
    }

    /// Returns whether a close was requested and the fate of every ADU is known.
    pub fn is_finished(&mut self, now: Instant) -> bool {
        self.finishing && !self.closed && self.is_drained(now)
    }

    /// Returns whether the fate of every ADU is known.
    pub fn is_drained(&mut self, now: Instant) -> bool {
        !self.source.has_queued(now) && self.ring().consumer().unsettled_len() == 0
    }

    /// Ends the stream: ADUs without a fate get one, and the producer is told.
    pub fn close(&mut self) {
        if !self.closed {
            self.closed = true;
            self.source.close();
        }
    }

    /// Returns whether the stream has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Handles the loss of the carrier with all data in flight: ADUs kept for retransmission wait for the next carrier, others are lost.
    pub fn carrier_gone(&mut self) {
        self.source.carrier_gone();
        self.source.inner_mut().carrier_gone();
        let unsettled = self.ring().consumer().unsettled();
        let is_kept = |&token: &u64| self.source.keeps(fragments::whole(token));
        let kept: BTreeSet<u64> = unsettled.into_iter().filter(is_kept).collect();
        self.ring().lose_under_way(|token| kept.contains(&token));
        self.has_news = true;
    }

    /// Requests a notification of new data, if the ring is empty; `true` if data was queued meanwhile, and the transport has to continue.
    pub fn stop_polling(&mut self) -> bool {
        !self.closed && self.ring().stop_polling()
    }

    /// Drops expired ADUs from the queue, for times in which nothing may be sent; returns whether there were any. It is scanned once per
    /// [`SCAN_INTERVAL`].
    pub fn drop_expired(&mut self, now: Instant) -> bool {
        if !self.waits() || now < self.next_scan {
            return false;
        }
        self.next_scan = now + SCAN_INTERVAL;
        let ring = self.ring();
        let before = ring.queued_len();
        ring.pass_expired(now);
        let has_dropped = ring.queued_len() < before;
        self.has_news |= has_dropped;
        has_dropped
    }

    /// Drops lost ADUs that expired before they could be retransmitted, without waiting for the next choice among them.
    pub fn drop_expired_losses(&mut self, now: Instant) {
        self.has_news |= self.source.pass_expired(now);
    }

    /// Returns whether a scan is worth its time: ADUs are queued, or the close waits for fates.
    fn waits(&mut self) -> bool {
        !self.closed && (self.finishing || self.ring().consumer().has_queued())
    }

    /// Sets the path state that late choice sees while nothing may be sent.
    pub fn set_path(&mut self, path: PathState) {
        self.path = path;
    }

    /// Returns the last path state.
    pub fn path(&self) -> &PathState {
        &self.path
    }

    /// Returns whether the late choice advises the application.
    pub fn is_advised(&self) -> bool {
        self.source.inner().inner().is_advised()
    }

    /// Sets the source's rate, for a late choice that advises it. Zero means unknown.
    pub fn set_rate(&mut self, rate: Rate) {
        if let Some(adviser) = self.ring().adviser() {
            adviser.set_rate(rate);
        }
    }

    /// Runs a late choice that advises the application, if that is due; returns whether it ran.
    pub fn watch(&mut self, now: Instant) -> bool {
        let ring = self.source.inner_mut().inner_mut();
        let is_due = ring.poll_watch().is_some_and(|due| due <= now);
        if is_due {
            ring.watch(now, &self.path);
        }
        is_due
    }

    /// Returns the next advice of the late choice to the application.
    pub fn poll_advice(&mut self) -> Option<Advice> {
        self.ring().adviser()?.poll_advice()
    }

    /// Returns the time at which [`drop_expired`](Self::drop_expired) and [`watch`](Self::watch) are due.
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let scan = self.waits().then_some(self.next_scan);
        scan.into_iter().chain(self.ring().poll_watch()).min()
    }

    /// Returns, once, whether fates became known or slots free.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Notes that fates may be known or slots free.
    pub fn note_news(&mut self) {
        self.has_news = true;
    }

    /// Returns the number of queued packets.
    pub fn queued_packets(&mut self) -> usize {
        self.ring().queued_len()
    }

    /// Returns the queued payload bytes. Scans the queue.
    pub fn queued_bytes(&mut self) -> usize {
        self.ring().queued_bytes()
    }

    /// Returns the state of the send buffer, if the late choice advises the application.
    pub fn buffer(&mut self) -> Option<BufferState> {
        self.ring().adviser().map(|adviser| adviser.state())
    }

    /// Returns the number of retransmitted packets.
    pub fn repaired(&self) -> u64 {
        self.source.repaired()
    }

    /// Returns whether losses are repaired: the peer can tell retransmissions from new data.
    pub fn is_repair_allowed(&self) -> bool {
        self.source.is_allowed()
    }

    /// Returns the application's first violation of the ring's protocol, if any.
    pub fn violation(&self) -> Option<Violation> {
        self.source.inner().inner().violation()
    }
}

#[cfg(test)]
mod tests;
