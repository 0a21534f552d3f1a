//! Consumer: the transport's side of the ring, which claims packets at the instant of sending and reports their fates.
//!
//! Shared memory is not trusted. Indexes that this side moves have private copies; every other word is read once,
//! checked, and used from the copy.

use std::sync::Arc;

use timeous_core::{AduMeta, Arrived, DropReason, Fate, Instant};

use crate::attached::KnownZones;
use crate::buffers::Buffers;
use crate::completion::{Completion, Writer};
use crate::error::Violation;
use crate::index::{Packed, at_or_after};
use crate::layout::Shared;
use crate::position_map::PositionMap;
use crate::record::{self, Place, Record, Unreadable};
use crate::seen::Seen;
use crate::settle::Unsettled;
use crate::sync::{Ordering, relax};

/// Attempts to move `kern_i` while `umod_i` changes. Chosen by us: an honest producer needs longer to move it than an
/// attempt takes, so that more than a handful in a row is an attack; a higher value lets it last longer.
const ATTEMPTS: u32 = 1 << 12;
/// Prefetch distance in records, whose cache lines the producer's processor holds. Chosen by us: a higher value fetches
/// lines that may change again; a lower one waits for them.
const AHEAD: u64 = 3;
/// Packets sent before `dev_i` is published, at most; all claimed ones at the latest (docs/design/ring.md). Fewer in a
/// small ring. Chosen by us: a higher value frees slots later.
const DEV_STEP: u64 = 16;

/// Packet claimed by the transport for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// Position in the ring, which identifies it from now on; never reused.
    pub token: u64,
    /// Metadata: a private copy.
    pub meta: AduMeta,
    /// Payload length in bytes.
    pub len: usize,
}

/// Claimed packet that was not sent yet.
#[derive(Clone, Copy, Debug, Default)]
struct Flight {
    place: Place,
    left: bool,
}

/// Result of an attempt to claim one packet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Empty,
    Passed,
    /// A packet was claimed; it is in `newest`.
    Taken,
}

/// Transport's side of a ring.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) shared: Arc<Shared>,
    dev: u64,
    /// Last published `dev_i`.
    told_dev: u64,
    dev_step: u64,
    /// Next packet to be given out. Packets between here and `kern_i` were claimed together with an earlier one.
    next: u64,
    kern: u64,
    user: u64,
    /// Number of packets that the transport will take at this instant.
    expected: u32,
    /// The packed word as last read or written here.
    packed: u64,
    /// Zones other than the ring's own.
    zones: KnownZones,
    /// Claimed packets, from `dev_i`.
    flights: PositionMap<Flight>,
    /// Queued packets.
    seen: PositionMap<Seen>,
    /// End of those whose records were read, and the producer's count of changes at that time.
    looked: u64,
    changes: u64,
    unsettled: Unsettled,
    completions: Writer,
    /// Latest claimed packet, as a field to avoid copies.
    newest: Claimed,
    /// Claimed packet to be given out by the next claim.
    held: Option<Claimed>,
    /// Packets that the last claim skipped, with reasons.
    passed: Vec<(AduMeta, DropReason)>,
    violation: Option<Violation>,
}

impl Consumer {
    pub(crate) fn new(shared: Arc<Shared>, origin: u64) -> Self {
        let slots = shared.geometry.slots();
        Self {
            dev: origin,
            told_dev: origin,
            dev_step: (u64::from(slots) / 8).clamp(1, DEV_STEP),
            next: origin,
            kern: origin,
            user: origin,
            expected: 0,
            packed: Packed { kern: origin as u32, umod: origin as u32 }.bits(),
            zones: KnownZones::default(),
            flights: PositionMap::new(origin),
            seen: PositionMap::new(origin),
            looked: origin,
            changes: 0,
            unsettled: Unsettled::new(slots),
            completions: Writer::default(),
            newest: Claimed { token: 0, meta: AduMeta::default(), len: 0 },
            held: None,
            passed: Vec::new(),
            violation: None,
            shared,
        }
    }

    /// Whether packets may be queued, including dead ones. `false` after a violation.
    pub fn has_queued(&mut self) -> bool {
        // Packets seen as queued before still are, unless they were pulled back, which the next claim notices. This
        // avoids reading a word that the other side writes for each packet.
        if self.violation.is_none() && (self.next < self.kern || self.knows_of_queued()) {
            return true;
        }
        self.umod().is_ok_and(|umod| self.held.is_some() || umod > self.next)
    }

    /// Announces that the transport will take up to `packets` packets at this instant: `kern_i` may move over all of
    /// them at once, since each move transfers a cache line between processors. Packets not taken then stay next in
    /// line, and cannot be pulled back.
    pub fn expect(&mut self, packets: u32) {
        self.expected = packets;
    }

    fn knows_of_queued(&self) -> bool {
        Packed::from_bits(self.packed).umod != self.kern as u32
    }

    /// Number of queued packets, including dead ones.
    ///
    /// # Errors
    /// [`Violation`] if shared memory holds values that no honest producer writes; permanently.
    pub fn queued_len(&mut self) -> Result<usize, Violation> {
        Ok((self.umod()? - self.next) as usize)
    }

    /// Updates the private copies of queued records; returns the number of queued packets. Only new records are read, unless
    /// the producer has changed others.
    pub(crate) fn look_over(&mut self) -> Result<usize, Violation> {
        // Before the count: what the producer publishes after a change comes with the new count.
        let len = self.queued_len()?;
        let end = self.next + len as u64;
        let changes = self.shared.changes().load(Ordering::Acquire);
        let known = if changes == self.changes { self.looked.clamp(self.next, end) } else { self.next };
        (self.looked, self.changes) = (end, changes);
        self.seen.remove_before(self.next);
        for position in known..end {
            let slot = self.shared.geometry.slot_of(position);
            self.seen.entry(position).refresh(position, self.shared.record(slot));
        }
        Ok(len)
    }

    pub(crate) fn seen(&self, place: usize) -> &Seen {
        self.seen.get(self.next + place as u64).expect("the caller looked over this many packets")
    }

    pub(crate) fn seen_mut(&mut self, place: usize) -> &mut Seen {
        self.seen.entry(self.next + place as u64)
    }

    /// Claims the oldest queued packet for sending now, moving `kern_i`. Skips packets that are dead, dropped, or
    /// expired at `now`, and reports their fates. `None` if nothing is queued.
    ///
    /// # Errors
    /// As [`queued_len`](Self::queued_len).
    pub fn claim(&mut self, now: Instant) -> Result<Option<Claimed>, Violation> {
        self.claim_within(now, usize::MAX)
    }

    /// Like [`claim`](Self::claim), but also skips packets longer than `room` bytes.
    ///
    /// # Errors
    /// As [`queued_len`](Self::queued_len).
    pub fn claim_within(&mut self, now: Instant, room: usize) -> Result<Option<Claimed>, Violation> {
        self.passed.clear();
        if let Some(held) = self.held.take() {
            match unfit(&held, now, room) {
                Some(reason) => self.pass_over(&held, reason),
                None => return Ok(Some(held)),
            }
        }
        // At most one round of the ring, so that an application that keeps enqueueing dead packets cannot block the transport.
        for _ in 0..self.shared.geometry.slots() {
            match self.claim_one(|claimed| unfit(claimed, now, room))? {
                Step::Passed => {}
                Step::Empty => return Ok(None),
                Step::Taken => return Ok(Some(self.newest)),
            }
        }
        Ok(None)
    }

    /// Like [`claim`](Self::claim), but only if the packet has at most `room` bytes; a longer one stays queued.
    ///
    /// # Errors
    /// As [`queued_len`](Self::queued_len).
    pub fn claim_fitting(&mut self, now: Instant, room: usize) -> Result<Option<Claimed>, Violation> {
        let next = match &self.held {
            Some(held) => (!held.meta.is_expired(now)).then_some(held.len),
            None => {
                let queued = self.look_over()?;
                let alive = (0..queued).filter_map(|place| self.seen(place).alive());
                alive.into_iter().find(|(meta, _)| !meta.is_expired(now)).map(|(_, len)| len)
            }
        };
        if next.is_none_or(|len| len > room) {
            self.passed.clear();
            return Ok(None);
        }
        let claimed = self.claim(now)?;
        // The packet may have been rewritten meanwhile.
        self.held = claimed.filter(|claimed| claimed.len > room);
        Ok(claimed.filter(|claimed| claimed.len <= room))
    }

    /// Skips dead and expired packets at the head of the queue to free their slots, while nothing may be sent.
    ///
    /// # Errors
    /// As [`queued_len`](Self::queued_len).
    pub fn pass_expired(&mut self, now: Instant) -> Result<(), Violation> {
        self.passed.clear();
        // No packet is about to be sent: those not expired stay the application's.
        self.expected = 0;
        if let Some(held) = self.held.take_if(|held| held.meta.is_expired(now)) {
            self.pass_over(&held, DropReason::Expired);
        }
        let len = self.look_over()?;
        let useless = |place: &usize| self.seen(*place).alive().is_none_or(|(meta, _)| meta.is_expired(now));
        for _ in 0..(0..len).take_while(useless).count() {
            if self.held.is_some() {
                break;
            }
            let expired = |claimed: &Claimed| claimed.meta.is_expired(now).then_some(DropReason::Expired);
            if self.claim_one(expired)? == Step::Taken {
                // The packet was rewritten meanwhile, and is the next to be claimed.
                self.held = Some(self.newest);
            }
        }
        Ok(())
    }

    fn pass_over(&mut self, claimed: &Claimed, reason: DropReason) {
        self.dropped(claimed.token, reason);
        self.passed.push((claimed.meta, reason));
    }

    /// Packets that the last claim skipped, with reasons.
    pub fn passed_over(&self) -> &[(AduMeta, DropReason)] {
        &self.passed
    }

    /// Drops all queued packets for the same reason.
    ///
    /// # Errors
    /// As [`queued_len`](Self::queued_len).
    pub fn drop_queued(&mut self, reason: DropReason) -> Result<(), Violation> {
        self.passed.clear();
        if let Some(held) = self.held.take() {
            self.pass_over(&held, reason);
        }
        for _ in 0..self.shared.geometry.slots() {
            if self.claim_one(|_| Some(reason))? == Step::Empty {
                break;
            }
        }
        Ok(())
    }

    fn claim_one(&mut self, unfit: impl FnOnce(&Claimed) -> Option<DropReason>) -> Result<Step, Violation> {
        if self.next == self.kern && !self.advance_kern()? {
            return Ok(Step::Empty);
        }
        let token = self.next;
        self.next += 1;
        self.expected = self.expected.saturating_sub(1);
        let slot = self.shared.geometry.slot_of(token);
        if token + AHEAD < self.user {
            self.shared.will_read_record(self.shared.geometry.slot_of(token + AHEAD));
        }
        let words = self.shared.record(slot);
        let dead = record::dead(words);
        let record = match record::read(words) {
            Ok(record) => record,
            Err(Unreadable::Torn) => return Err(self.violates(Violation::Torn { token })),
            Err(Unreadable::Bad(attributes)) => return Err(self.violates(Violation::BadRecord { token, attributes })),
        };
        self.check_place(token, record.place)?;
        let dead = dead.or_else(|| self.seen.get(token)?.given_up(token, record.version));
        self.take_over(token, &record);
        match dead.or_else(|| unfit(&self.newest)) {
            Some(reason) => {
                let claimed = self.newest;
                self.pass_over(&claimed, reason);
                Ok(Step::Passed)
            }
            None => Ok(Step::Taken),
        }
    }

    /// Moves `kern_i` by one packet, or by the expected number, within `umod_i`: from then on those packets belong to this side only.
    fn advance_kern(&mut self) -> Result<bool, Violation> {
        // If this word is outdated, the exchange fails and returns the current one.
        let mut seen = if self.knows_of_queued() { self.packed } else { self.shared.packed().load(Ordering::Acquire) };
        for _ in 0..ATTEMPTS {
            let queued = self.accept(seen)? - self.kern;
            if queued == 0 {
                return Ok(false);
            }
            let kern = self.kern + queued.min(self.expected.max(1).into());
            let moved = Packed { kern: kern as u32, ..Packed::from_bits(seen) }.bits();
            match self.shared.packed().compare_exchange(seen, moved, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    self.kern = kern;
                    self.packed = moved;
                    return Ok(true);
                }
                Err(newer) => seen = newer,
            }
            relax();
        }
        Err(self.violates(Violation::Contended { attempts: ATTEMPTS }))
    }

    fn take_over(&mut self, token: u64, record: &Record) {
        *self.flights.entry(token) = Flight { place: record.place, left: false };
        if let Some(evicted) = self.unsettled.insert(token, record.meta) {
            self.complete(Completion::new(evicted.seq, Fate::Lost));
        }
        if record.place.zone == 0 {
            self.shared.zone.will_read(record.place.offset as usize);
        }
        self.newest = Claimed { token, meta: record.meta, len: record.place.len as usize };
    }

    fn check_place(&mut self, token: u64, place: Place) -> Result<(), Violation> {
        let Place { offset, len, zone } = place;
        let holds = if zone == 0 { self.shared.zone.hold(place) } else { self.is_in_zone(token, place)? };
        if holds { Ok(()) } else { Err(self.violates(Violation::BadPlace { token, offset, len })) }
    }

    /// Whether a payload lies within an attached zone. Never inlined: that costs every packet of the ring's own zone a
    /// fifth (`cargo bench -p timeous-ring`).
    #[inline(never)]
    fn is_in_zone(&mut self, token: u64, place: Place) -> Result<bool, Violation> {
        self.zones.refresh(self.shared.attachments.as_ref());
        match self.zones.get(place.zone) {
            Some(buffers) => Ok(buffers.hold(place)),
            None => Err(self.violates(Violation::NoSuchZone { token, zone: place.zone })),
        }
    }

    /// Appends the payload of a claimed and unsent packet to `out`; `false` if the token has none.
    pub fn copy_payload(&self, token: u64, out: &mut Vec<u8>) -> bool {
        let Some((buffers, place)) = self.located(token) else { return false };
        buffers.append(place.offset as usize, place.len as usize, out);
        true
    }

    /// Notes that a packet was given to the device. `dev_i` moves over all sent packets in ring order. Unknown tokens
    /// and packets already sent are ignored.
    pub fn sent(&mut self, token: u64) {
        let Some(flight) = self.flight(token) else { return };
        flight.left = true;
        while self.dev < self.next && self.flights.get(self.dev).is_some_and(|flight| flight.left) {
            self.flights.pop_first();
            self.dev += 1;
        }
        // Published in batches: otherwise the other side fetches the word for each packet.
        if self.dev == self.next || self.dev - self.told_dev >= self.dev_step {
            self.tell_dev();
        }
    }

    fn tell_dev(&mut self) {
        self.told_dev = self.dev;
        self.shared.dev_i().store(self.dev, Ordering::Release);
    }

    /// Notes an acknowledgement: sets `kern_acked` while the record is still there, and reports the fate. An ADU has
    /// one fate: later ones are ignored and return `None`.
    pub fn acked(&mut self, token: u64) -> Option<AduMeta> {
        self.arrived(token, None)
    }

    /// Like [`acked`](Self::acked), with the arrival if the acknowledgement tells it.
    pub fn arrived(&mut self, token: u64, arrived: Option<Arrived>) -> Option<AduMeta> {
        if self.unsettled.is_open(token) && self.record_is_there(token) {
            record::mark_acked(self.shared.record(self.shared.geometry.slot_of(token)), token);
        }
        self.settle(token, Fate::Acked, arrived)
    }

    /// Notes a loss.
    pub fn lost(&mut self, token: u64) -> Option<AduMeta> {
        self.settle(token, Fate::Lost, None)
    }

    /// Notes that a claimed packet will not be sent after all.
    pub fn dropped(&mut self, token: u64, reason: DropReason) -> Option<AduMeta> {
        self.settle(token, Fate::Dropped(reason), None)
    }

    fn settle(&mut self, token: u64, fate: Fate, arrived: Option<Arrived>) -> Option<AduMeta> {
        self.sent(token);
        let meta = self.unsettled.settle(token)?;
        self.complete(Completion { seq: meta.seq, fate, arrived });
        Some(meta)
    }

    fn complete(&mut self, done: Completion) {
        if let Err(violation) = self.completions.write(&self.shared, done) {
            self.violates(violation);
        }
    }

    /// Number of claimed packets without a fate.
    pub fn unsettled_len(&self) -> usize {
        self.unsettled.len()
    }

    /// Claimed packets without a fate, oldest first.
    pub fn unsettled(&self) -> Vec<u64> {
        self.unsettled.positions().collect()
    }

    /// Gives every claimed packet without a fate one: `Dropped(Closed)` if unsent, `Lost` if sent. For the end of a connection.
    pub fn settle_all(&mut self) {
        for token in self.unsettled() {
            let unsent = self.flight(token).is_some();
            self.settle(token, if unsent { Fate::Dropped(DropReason::Closed) } else { Fate::Lost }, None);
        }
    }

    /// Tells the producer that no more packets will be sent.
    pub fn refuse_more(&mut self) {
        self.shared.closed().store(1, Ordering::Relaxed);
    }

    /// Sets `kern_notify`, which asks the producer to wake this side when it enqueues. Returns `true` if packets came
    /// meanwhile, so that polling must go on.
    pub fn stop_polling(&mut self) -> bool {
        let notify = self.shared.kern_notify();
        notify.store(1, Ordering::Release);
        // A read-modify-write of the word that publishing modifies: the second of the two sees the first. Either the
        // packets are seen here, or `kern_notify` is seen there.
        let seen = self.shared.packed().fetch_add(0, Ordering::AcqRel);
        let raced_in = self.accept(seen).is_ok_and(|umod| umod > self.next);
        if raced_in {
            self.shared.kern_notify().store(0, Ordering::Relaxed);
        }
        raced_in
    }

    /// The application's first violation of the ring's protocol, if any; it ends the ring.
    pub fn violation(&self) -> Option<Violation> {
        self.violation
    }

    fn umod(&mut self) -> Result<u64, Violation> {
        let seen = self.shared.packed().load(Ordering::Acquire);
        self.accept(seen)
    }

    /// Checks a packed word that was read; returns its `umod_i`.
    fn accept(&mut self, seen: u64) -> Result<u64, Violation> {
        if let Some(violation) = self.violation {
            return Err(violation);
        }
        let packed = Packed::from_bits(seen);
        if packed.kern != self.kern as u32 {
            let violation = Violation::KernMoved { expected: self.kern as u32, found: packed.kern };
            return Err(self.violates(violation));
        }
        let umod = at_or_after(self.kern, packed.umod);
        if umod > self.user {
            self.see_user()?;
        }
        if umod > self.user {
            return Err(self.violates(Violation::UmodOutside { kern: self.kern, umod, user: self.user }));
        }
        self.packed = seen;
        Ok(umod)
    }

    fn see_user(&mut self) -> Result<(), Violation> {
        let user = self.shared.user_i().load(Ordering::Acquire);
        if user < self.user {
            return Err(self.violates(Violation::UserWentBack { last: self.user, found: user }));
        }
        if user - self.dev >= self.shared.geometry.slots().into() {
            let slots = self.shared.geometry.slots();
            return Err(self.violates(Violation::TooManyPackets { dev: self.dev, user, slots }));
        }
        self.user = user;
        Ok(())
    }

    /// Payload location of a claimed and unsent packet, within its zone. The claim has checked it; a zone that was
    /// replaced since, which no honest producer does, is checked again.
    pub(crate) fn located(&self, token: u64) -> Option<(&Buffers, Place)> {
        let Flight { place, left } = *self.flights.get(token)?;
        if left || !(self.dev..self.next).contains(&token) {
            return None;
        }
        match place.zone {
            0 => Some((&self.shared.zone, place)),
            zone => self.zones.get(zone).filter(|buffers| buffers.hold(place)).map(|buffers| (buffers, place)),
        }
    }

    /// A claimed and unsent packet.
    fn flight(&mut self, token: u64) -> Option<&mut Flight> {
        let claimed = (self.dev..self.next).contains(&token);
        self.flights.get_mut(token).filter(|flight| claimed && !flight.left)
    }

    /// Whether no later packet of the same slot was claimed, so that setting `kern_acked` affects no other packet.
    fn record_is_there(&self, token: u64) -> bool {
        self.next <= token + u64::from(self.shared.geometry.slots())
    }

    fn violates(&mut self, violation: Violation) -> Violation {
        *self.violation.get_or_insert(violation)
    }
}

#[cfg(not(loom))]
impl Drop for Consumer {
    /// Lets the producer's process reuse the zones' buffers of unsent packets.
    fn drop(&mut self) {
        self.shared.leave_consumer();
    }
}

/// Reason for not sending a packet just claimed, if any: expired packets are never sent.
fn unfit(claimed: &Claimed, now: Instant, room: usize) -> Option<DropReason> {
    if claimed.meta.is_expired(now) {
        Some(DropReason::Expired)
    } else if claimed.len > room {
        Some(DropReason::TooLarge)
    } else {
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
