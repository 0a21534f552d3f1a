//! A transport's source of ADUs: a consumer, and the choice that runs over its queue at the instant of sending.

use std::fmt;

use timeous_core::{
    AduMeta, AduSource, Adviser, Copied, DropReason, Fate, Instant, Joined, LateChoice, PathState, PulledAdu, Queue,
};

use crate::consumer::{Claimed, Consumer};
use crate::error::Violation;

/// What a transport pulls from.
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
    apart: bool,
    closed: bool,
    /// How many packets its driver has room for.
    room: u32,
    /// Whether the transport was told last that there is nothing, or has not asked yet.
    empty_handed: bool,
}

impl RingSource {
    /// Gives everything in the ring's order.
    pub fn new(consumer: Consumer) -> Self {
        Self { consumer, choice: None, apart: false, closed: false, room: 1, empty_handed: true }
    }

    /// Runs `choice` before each packet.
    pub fn with_choice(consumer: Consumer, choice: Box<dyn LateChoice>) -> Self {
        Self { choice: Some(choice), ..Self::new(consumer) }
    }

    /// Replaces the choice.
    pub fn set_choice(&mut self, choice: Option<Box<dyn LateChoice>>) {
        self.choice = choice;
    }

    /// What of the choice speaks with the application, if anything does.
    pub fn adviser(&mut self) -> Option<&mut dyn Adviser> {
        self.choice.as_mut()?.adviser()
    }

    /// When to [`watch`](Self::watch): `None` if nothing is queued, or nobody wants to look.
    pub fn poll_watch(&mut self) -> Option<Instant> {
        if self.closed || !self.consumer.has_queued() {
            return None;
        }
        self.adviser()?.poll_timeout()
    }

    /// Lets the choice's adviser look at the queue if it is time, for a time in which nothing may be sent.
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

    /// Leaves payloads in the ring's zone from now on, where a driver that can send from there finds them by
    /// `payload`.
    #[must_use]
    pub fn leaving_payloads_apart(mut self) -> Self {
        self.apart = true;
        self
    }

    /// Its driver can hand over so many packets at this instant; one unless it says so. As many may be taken from the
    /// application together, where a transport expects to send them.
    pub fn has_room_for(&mut self, packets: u32) {
        self.room = packets;
    }

    /// The connection ends: what is queued is `Dropped(Closed)`, the producer learns of it, and nothing is given any
    /// more. What is under way can still be acknowledged; [`settle_all`](Self::settle_all) ends that too.
    pub fn close(&mut self) {
        self.closed = true;
        self.consumer.refuse_more();
        self.drain();
    }

    /// Gives whatever is still open a fate: `Dropped(Closed)` or, if it was sent, `Lost`.
    pub fn settle_all(&mut self) {
        if self.closed {
            self.drain();
        }
        self.consumer.settle_all();
    }

    /// What slipped in while the ring was being closed. A violation is kept by the consumer.
    fn drain(&mut self) {
        let _kept = self.consumer.drop_queued(DropReason::Closed);
    }

    /// Whatever was sent over a carrier that is gone and has no fate is lost, but for what is `kept` to be sent again.
    pub fn lose_under_way(&mut self, kept: impl Fn(u64) -> bool) {
        for token in self.consumer.unsettled() {
            if !kept(token) {
                self.lost(token);
            }
        }
    }

    /// What the application did to the ring that it must not, if anything.
    pub fn violation(&self) -> Option<Violation> {
        self.consumer.violation()
    }

    /// How many packets are queued, dead ones included.
    pub fn queued_len(&mut self) -> usize {
        self.consumer.queued_len().unwrap_or(0)
    }

    /// How many bytes of payload are queued in packets that are still wanted. Looks at every one of them.
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
            }
        }
    }

    /// Asks the producer to tell of new data, if there is none. `true` if the transport has to be woken instead: it went
    /// away empty-handed, and something has come since, of which nobody would tell it.
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

    /// The consumer beneath.
    pub fn consumer(&mut self) -> &mut Consumer {
        &mut self.consumer
    }

    fn tell(&mut self, settled: Option<AduMeta>, fate: Fate) {
        if let (Some(choice), Some(meta)) = (&mut self.choice, settled) {
            choice.on_fate(&meta, fate);
        }
    }

    /// Hands over what was claimed.
    fn give(&mut self, claimed: Claimed, packet: &mut Vec<u8>) -> PulledAdu {
        let Claimed { token, len, meta } = claimed;
        if !self.apart {
            self.consumer.copy_payload(token, packet);
        }
        PulledAdu { token, len, meta, apart: self.apart, copy: Copied::First }
    }

    /// Whether the choice made last lets what stays wait until less is outstanding.
    fn is_held_back(&self, path: &PathState) -> bool {
        path.outstanding > 0 && self.choice.as_ref().is_some_and(|choice| choice.holds())
    }

    fn choose_queued(&mut self, now: Instant, path: &PathState) {
        let Some(choice) = &mut self.choice else { return };
        if let Ok(mut queue) = self.consumer.queued()
            && !queue.is_empty()
        {
            choice.choose(now, path, &mut queue);
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
            // What is outstanding will have a fate: the transport asks again then, and nobody has to wake it.
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
        self.choose_queued(now, path);
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
            None => !meta.is_expired(now + path.least_way()),
        }
    }

    fn why_not(&self, meta: &AduMeta) -> DropReason {
        self.choice.as_ref().map_or(DropReason::TooLate, |choice| choice.why_not(meta))
    }

    fn is_punctual(&self) -> bool {
        self.choice.as_ref().is_some_and(|choice| choice.is_punctual())
    }

    fn sent(&mut self, token: u64) {
        self.consumer.sent(token);
    }

    fn acked(&mut self, token: u64) {
        let settled = self.consumer.acked(token);
        self.tell(settled, Fate::Acked);
    }

    fn arrived(&mut self, token: u64, at: Instant) {
        let settled = self.consumer.acked(token);
        if let Some(meta) = settled.filter(|meta| meta.is_expired(at)) {
            self.missed(&meta);
        }
        self.tell(settled, Fate::Acked);
    }

    fn missed(&mut self, meta: &AduMeta) {
        if let Some(choice) = &mut self.choice {
            choice.on_missed(meta);
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
        let Self { consumer, choice, apart, closed, room, empty_handed } = self;
        f.debug_struct("RingSource")
            .field("consumer", consumer)
            .field("has_choice", &choice.is_some())
            .field("apart", apart)
            .field("closed", closed)
            .field("room", room)
            .field("empty_handed", empty_handed)
            .finish()
    }
}
