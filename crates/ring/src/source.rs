//! ADU source for a transport: a consumer with a late-choice policy for its queue.

use std::fmt;

use timeous_core::{
    AduMeta, AduSource, Adviser, Arrived, Copied, DropReason, Fate, Instant, Joined, LateChoice, PathState, PulledAdu,
    Queue, RateRange,
};

use crate::consumer::{Claimed, Consumer};
use crate::error::Violation;

/// ADU source backed by a packet ring.
///
/// ```
/// use timeous_core::{AduMeta, AduSource, Instant, PathState};
/// use timeous_ring::{Config, RingSource, create};
/// let (mut producer, consumer) = create(&Config::new(8)).unwrap();
/// producer.enqueue(&AduMeta::default(), b"hello").unwrap();
/// let mut source = RingSource::new(consumer);
/// let mut packet = Vec::with_capacity(1500);
/// let pulled = source.pull(Instant::ZERO, &PathState::default(), 1400, &mut packet).unwrap();
/// assert_eq!(packet, b"hello");
/// source.sent(pulled.token);
/// ```
pub struct RingSource {
    consumer: Consumer,
    choice: Option<Box<dyn LateChoice>>,
    /// Whether the policy has an adviser; asking it for every packet costs more.
    is_advised: bool,
    apart: bool,
    closed: bool,
    /// Number of packets that its driver has room for.
    room: u32,
    /// Whether the transport was last told that the queue is empty, or has not asked yet.
    empty_handed: bool,
    /// Time of the last choice, unless a fate became known since.
    chosen_at: Option<Instant>,
}

impl RingSource {
    /// Creates a source without a policy, in the ring's order.
    pub fn new(consumer: Consumer) -> Self {
        Self {
            consumer,
            choice: None,
            is_advised: false,
            apart: false,
            closed: false,
            room: 1,
            empty_handed: true,
            chosen_at: None,
        }
    }

    /// Creates a source that runs `choice` before each packet.
    pub fn with_choice(consumer: Consumer, choice: Box<dyn LateChoice>) -> Self {
        let mut source = Self::new(consumer);
        source.set_choice(Some(choice));
        source
    }

    /// Replaces the policy. An adviser counts if the policy has it now.
    pub fn set_choice(&mut self, mut choice: Option<Box<dyn LateChoice>>) {
        self.is_advised = choice.as_mut().is_some_and(|choice| choice.adviser().is_some());
        self.choice = choice;
    }

    /// The policy's adviser, if it has one.
    pub fn adviser(&mut self) -> Option<&mut dyn Adviser> {
        self.choice.as_mut().filter(|_| self.is_advised)?.adviser()
    }

    /// Whether the policy has an adviser.
    pub fn is_advised(&self) -> bool {
        self.is_advised
    }

    /// Next time to [`watch`](Self::watch); `None` if nothing is queued or there is no adviser.
    pub fn poll_watch(&mut self) -> Option<Instant> {
        if self.closed || !self.is_advised || !self.consumer.has_queued() {
            return None;
        }
        self.adviser()?.poll_timeout()
    }

    /// Lets the policy's adviser look at the queue when that is due, for times in which nothing may be sent.
    pub fn watch(&mut self, now: Instant, path: &PathState) {
        if self.poll_watch().is_none_or(|due| due > now) {
            return;
        }
        // A violation is kept by the consumer.
        if let Some(adviser) = self.choice.as_mut().and_then(|choice| choice.adviser())
            && let Ok(queue) = self.consumer.queued()
        {
            adviser.watch(now, path, &queue);
        }
    }

    /// Leaves payloads in the ring's zone, for a driver that sends from there, found by `payload`.
    #[must_use]
    pub fn leaving_payloads_apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Sets the number of packets that the driver can take at this instant; one by default. Up to as many may be
    /// claimed together, if the transport expects to send them.
    pub fn has_room_for(&mut self, packets: u32) {
        self.room = packets;
    }

    /// Closes the ring at the end of the connection: queued packets are `Dropped(Closed)`, the producer is told, and
    /// nothing more is given out. Packets in flight can still be acknowledged, until [`settle_all`](Self::settle_all).
    pub fn close(&mut self) {
        self.closed = true;
        self.consumer.refuse_more();
        self.drain();
    }

    /// Gives all packets without a fate one: `Dropped(Closed)`, or `Lost` if it was sent.
    pub fn settle_all(&mut self) {
        if self.closed {
            self.drain();
        }
        self.consumer.settle_all();
    }

    /// Drops packets that were enqueued while the ring was being closed. A violation is kept by the consumer.
    fn drain(&mut self) {
        let _kept = self.consumer.drop_queued(DropReason::Closed);
    }

    /// Marks packets sent over a lost connection as lost, except those `kept` for retransmission.
    pub fn lose_under_way(&mut self, kept: impl Fn(u64) -> bool) {
        for token in self.consumer.unsettled() {
            if !kept(token) {
                self.lost(token);
            }
        }
    }

    /// The application's first violation of the ring's protocol, if any.
    pub fn violation(&self) -> Option<Violation> {
        self.consumer.violation()
    }

    /// Number of queued packets, including dead ones.
    pub fn queued_len(&mut self) -> usize {
        self.consumer.queued_len().unwrap_or(0)
    }

    /// Payload bytes of queued packets, without dead ones. Scans all of them.
    pub fn queued_bytes(&mut self) -> usize {
        let Ok(queue) = self.consumer.queued() else { return 0 };
        (0..queue.len()).filter_map(|place| queue.get(place)).map(|(_, len)| len).sum()
    }

    /// See [`Consumer::pass_expired`].
    pub fn pass_expired(&mut self, now: Instant) {
        // A violation is kept by the consumer.
        let _kept = self.consumer.pass_expired(now);
        self.tell_of_passed();
    }

    fn tell_of_passed(&mut self) {
        if let Some(choice) = &mut self.choice {
            for (meta, reason) in self.consumer.passed_over() {
                choice.on_fate(meta, Fate::Dropped(*reason));
                self.chosen_at = None;
            }
        }
    }

    /// Asks the producer to notify of new data, if there is none. Returns `true` if the transport must be woken
    /// instead, because it found the queue empty and packets have come since.
    pub fn stop_polling(&mut self) -> bool {
        if self.closed {
            return false;
        }
        if self.consumer.has_queued() { std::mem::take(&mut self.empty_handed) } else { self.consumer.stop_polling() }
    }

    /// See [`Consumer::payload`].
    #[cfg(not(loom))]
    #[must_use]
    pub fn payload(&self, token: u64) -> Option<crate::Payload<'_>> {
        self.consumer.payload(token)
    }

    /// Consumer of the ring.
    pub fn consumer(&mut self) -> &mut Consumer {
        &mut self.consumer
    }

    fn tell(&mut self, settled: Option<AduMeta>, fate: Fate) {
        if let (Some(choice), Some(meta)) = (&mut self.choice, settled) {
            choice.on_fate(&meta, fate);
            self.chosen_at = None;
        }
    }

    /// Hands over a claimed packet.
    fn give(&mut self, claimed: Claimed, packet: &mut Vec<u8>) -> PulledAdu {
        let Claimed { token, len, meta } = claimed;
        if !self.apart {
            self.consumer.copy_payload(token, packet);
        }
        PulledAdu { token, len, meta, apart: self.apart, copy: Copied::First, is_fragment: false }
    }

    /// Whether the policy's last decision holds the queue back until fewer bytes are in flight.
    fn is_held_back(&self, path: &PathState) -> bool {
        path.outstanding > 0 && self.choice.as_ref().is_some_and(|choice| choice.holds())
    }

    fn choose_queued(&mut self, now: Instant, path: &PathState) {
        let Some(choice) = &mut self.choice else { return };
        if let Ok(mut queue) = self.consumer.queued()
            && !queue.is_empty()
        {
            choice.choose(now, path, &mut queue);
            self.chosen_at = Some(now);
        }
    }
}

impl AduSource for RingSource {
    fn has_queued(&mut self, _: Instant) -> bool {
        if self.closed {
            self.drain();
        }
        self.empty_handed = self.closed || !self.consumer.has_queued();
        !self.empty_handed
    }

    fn pull(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if !self.closed {
            self.choose_queued(now, path);
        }
        self.pull_chosen(now, path, room, packet)
    }

    fn choose(&mut self, now: Instant, path: &PathState, ahead: &mut dyn Queue) {
        let Some(choice) = &mut self.choice else { return };
        match self.consumer.queued() {
            Ok(mut queue) if !self.closed => choice.choose(now, path, &mut Joined::new(ahead, &mut queue)),
            _ => choice.choose(now, path, ahead),
        }
    }

    fn pull_chosen(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if self.closed {
            self.drain();
            return None;
        }
        if self.is_held_back(path) {
            // Packets in flight will get a fate, and the transport asks again then: no wake-up is needed.
            self.empty_handed = false;
            return None;
        }
        let claimed = self.consumer.claim_within(now, room);
        self.tell_of_passed();
        let claimed = claimed.ok().flatten();
        self.empty_handed = claimed.is_none();
        claimed.map(|claimed| self.give(claimed, packet))
    }

    fn pull_beside(&mut self, now: Instant, path: &PathState, room: usize, packet: &mut Vec<u8>) -> Option<PulledAdu> {
        if self.closed || !self.consumer.has_queued() {
            return None;
        }
        // Each choice looks at the whole queue.
        if self.chosen_at != Some(now) {
            self.choose_queued(now, path);
        }
        if self.is_held_back(path) {
            return None;
        }
        let claimed = self.consumer.claim_fitting(now, room);
        self.tell_of_passed();
        claimed.ok().flatten().map(|claimed| self.give(claimed, packet))
    }

    fn will_pull(&mut self, packets: u32) {
        self.consumer.expect(packets.min(self.room));
    }

    fn append(&mut self, token: u64, packet: &mut Vec<u8>) {
        self.consumer.copy_payload(token, packet);
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        match &mut self.choice {
            Some(choice) => choice.is_worth_repeating(now, path, meta),
            None => !path.is_too_late(now, meta, 0),
        }
    }

    fn why_not(&self, meta: &AduMeta) -> DropReason {
        self.choice.as_ref().map_or(DropReason::TooLate, |choice| choice.why_not(meta))
    }

    fn is_punctual(&self) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.is_punctual())
    }

    fn rate_range(&mut self) -> Option<RateRange> {
        self.choice.as_mut()?.adviser()?.rate_range()
    }

    fn sent(&mut self, token: u64) {
        self.consumer.sent(token);
    }

    fn acked(&mut self, token: u64) {
        let settled = self.consumer.acked(token);
        self.tell(settled, Fate::Acked);
    }

    fn arrived(&mut self, token: u64, at: Instant, exactly: Option<Arrived>) {
        let settled = self.consumer.arrived(token, exactly);
        if let Some(meta) = settled.filter(|meta| meta.is_expired(at)) {
            self.missed(&meta);
        }
        self.tell(settled, Fate::Acked);
    }

    fn missed(&mut self, meta: &AduMeta) {
        if let Some(choice) = &mut self.choice {
            choice.on_missed(meta);
            self.chosen_at = None;
        }
    }

    fn lost(&mut self, token: u64) {
        let settled = self.consumer.lost(token);
        self.tell(settled, Fate::Lost);
    }

    fn dropped(&mut self, token: u64, reason: DropReason) {
        let settled = self.consumer.dropped(token, reason);
        self.tell(settled, Fate::Dropped(reason));
    }

    fn close(&mut self) {
        RingSource::close(self);
        self.settle_all();
    }
}

impl fmt::Debug for RingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { consumer, choice, is_advised: _, apart, closed, room, empty_handed, chosen_at } = self;
        f.debug_struct("RingSource")
            .field("consumer", consumer)
            .field("has_choice", &choice.is_some())
            .field("apart", apart)
            .field("closed", closed)
            .field("room", room)
            .field("empty_handed", empty_handed)
            .field("chosen_at", chosen_at)
            .finish()
    }
}
