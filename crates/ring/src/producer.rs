//! Producer: the application's side of the ring, which enqueues packets, withdraws them, pulls them back, and reads fates.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use timeous_core::{AduMeta, DropReason, Fate};

use crate::attached::AttachedZones;
use crate::buffer::{FrozenBuffer, Handle, ZoneBuffer};
use crate::completion::{Completion, Reader};
use crate::error::{Broken, EnqueueError};
use crate::index::{Packed, at_or_after};
use crate::layout::Shared;
use crate::own_zone::{OwnZone, Use};
use crate::position_map::PositionMap;
use crate::record::{self, Place};
use crate::sync::{Ordering, relax};

/// Attempts to move `umod_i` back. Chosen by us: an honest consumer moves `kern_i` at most once per slot, and far more
/// slowly; a higher value lets a hostile one last longer.
const ATTEMPTS: u32 = 1 << 20;
/// Prefetch distance in records, whose cache lines the consumer's processor holds from the last round. Chosen by us: a
/// higher value fetches lines that may change again; a lower one waits for them.
const AHEAD: u64 = 4;

/// Position of a packet in the ring, counted from the ring's beginning; never reused.
///
/// It identifies the place and not the ADU: reordering packets that were pulled back moves ADUs to other places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(pub(crate) u64);

impl Index {
    /// Returns the number.
    pub const fn position(self) -> u64 {
        self.0
    }
}

/// Queued packet, as seen by the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Position in the ring.
    pub index: Index,
    /// Metadata.
    pub meta: AduMeta,
    /// Payload length in bytes.
    pub len: usize,
    /// Reason of its withdrawal, if it was withdrawn.
    pub dead: Option<DropReason>,
}

/// Private copy of a record: shared memory is written here, and never trusted.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) meta: AduMeta,
    pub(crate) place: Place,
    pub(crate) dead: Option<DropReason>,
    pub(crate) used: Option<Use>,
}

/// Application's side of a ring.
#[derive(Debug)]
pub struct Producer {
    pub(crate) shared: Arc<Shared>,
    /// Packets from `dev_i` to `user_i`.
    pub(crate) slots: PositionMap<Slot>,
    pub(crate) zone: OwnZone,
    /// Zones of packets in buffers that are not the ring's own.
    pub(crate) attached: AttachedZones,
    pub(crate) user: u64,
    /// Published `umod_i`; equals `user` unless a [`PulledBack`](crate::PulledBack) exists or was leaked.
    umod: u64,
    kern: u64,
    dev: u64,
    version: u64,
    completions: Reader,
    /// Fates of overwritten ADUs, which never reach the consumer.
    overwritten: VecDeque<Completion>,
    overwritten_lost: u64,
    /// ADUs overwritten so far.
    overwrites: u64,
    /// First position.
    origin: u64,
    broken: Option<Broken>,
}

impl Producer {
    pub(crate) fn new(shared: Arc<Shared>, origin: u64) -> Self {
        Self {
            slots: PositionMap::new(origin),
            zone: OwnZone::new(shared.zone.clone()),
            attached: AttachedZones::default(),
            user: origin,
            umod: origin,
            kern: origin,
            dev: origin,
            version: 0,
            completions: Reader::default(),
            overwritten: VecDeque::new(),
            overwritten_lost: 0,
            overwrites: 0,
            origin,
            broken: None,
            shared,
        }
    }

    /// Size of the ring's own buffers in bytes: the longest payload of [`enqueue`](Self::enqueue).
    pub fn buffer_size(&self) -> usize {
        self.zone.books().buffers.size()
    }

    /// Number of packets that can be enqueued before the ring is full.
    pub fn free_slots(&mut self) -> usize {
        let _broken_shows_at_enqueue = self.reclaim();
        self.capacity() as usize - (self.user - self.dev) as usize
    }

    /// Enqueues an ADU, copying its payload into a buffer of the zone.
    ///
    /// # Errors
    /// See [`EnqueueError`]; the ring is unchanged then.
    pub fn enqueue(&mut self, meta: &AduMeta, bytes: &[u8]) -> Result<Index, EnqueueError> {
        let index = self.append(meta, bytes)?;
        self.publish()?;
        Ok(index)
    }

    /// Enqueues an ADU of `len` bytes, which `fill` writes in place. The buffer holds arbitrary old bytes before.
    ///
    /// ```
    /// use timeous_core::AduMeta;
    /// use timeous_ring::{Config, create};
    /// let (mut producer, _consumer) = create(&Config::new(8)).unwrap();
    /// producer.enqueue_with(&AduMeta::default(), 5, |bytes| bytes.copy_from_slice(b"hello")).unwrap();
    /// assert_eq!(producer.queued_len(), 1);
    /// ```
    ///
    /// # Errors
    /// See [`EnqueueError`]; the ring is unchanged then.
    #[cfg(not(loom))]
    pub fn enqueue_with(
        &mut self,
        meta: &AduMeta,
        len: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Index, EnqueueError> {
        self.reclaim()?;
        self.make_room()?;
        let (used, place) = self.zone.fill(len, fill)?;
        let index = self.occupy(meta, used, place);
        self.publish()?;
        Ok(index)
    }

    /// Returns a buffer of the zone to be filled in place.
    ///
    /// # Errors
    /// [`EnqueueError::ZoneFull`], or [`EnqueueError::Broken`].
    pub fn buffer(&mut self) -> Result<ZoneBuffer, EnqueueError> {
        self.reclaim()?;
        self.zone.buffer()
    }

    /// Enqueues the first `len` bytes of a buffer that was filled in place.
    ///
    /// # Errors
    /// See [`EnqueueError`]; the buffer is freed then.
    pub fn enqueue_buffer(&mut self, meta: &AduMeta, buffer: ZoneBuffer, len: usize) -> Result<Index, EnqueueError> {
        self.make_room()?;
        let (handle, range) = buffer.into_part(len)?;
        let (used, place) = self.find(&handle, &range)?;
        handle.transfer();
        let index = self.occupy(meta, used, place);
        self.publish()?;
        Ok(index)
    }

    /// Enqueues a buffer, or a part of one, without a copy: see [`enqueue_part`](Self::enqueue_part).
    ///
    /// # Errors
    /// See [`EnqueueError`]; the ring is unchanged then.
    pub fn enqueue_shared(&mut self, meta: &AduMeta, buffer: &FrozenBuffer) -> Result<Index, EnqueueError> {
        self.enqueue_part(meta, buffer, 0..buffer.len())
    }

    /// Enqueues a part of a buffer, which may be used for several packets, in several rings. The buffer of another zone
    /// attaches that zone to the ring. If the transport is another process, that process has to
    /// [attach](Self::zone_to_attach) it before, or the buffer is [foreign](EnqueueError::ForeignBuffer).
    ///
    /// # Errors
    /// See [`EnqueueError`]; the ring is unchanged then.
    pub fn enqueue_part(
        &mut self,
        meta: &AduMeta,
        buffer: &FrozenBuffer,
        range: Range<usize>,
    ) -> Result<Index, EnqueueError> {
        self.make_room()?;
        let (used, place) = self.find(buffer.handle(), &buffer.range(&range)?)?;
        buffer.handle().hold();
        let index = self.occupy(meta, used, place);
        self.publish()?;
        Ok(index)
    }

    /// Packets queued at this instant, oldest first, as far as the producer can see, without system calls or locks. The
    /// consumer may claim packets meanwhile.
    pub fn queued(&mut self) -> impl Iterator<Item = Queued> + '_ {
        let _broken_shows_at_enqueue = self.look();
        (self.kern..self.user).map(|position| self.describe(position))
    }

    pub(crate) fn describe(&self, position: u64) -> Queued {
        let slot = self.slot(position);
        Queued { index: Index(position), meta: slot.meta, len: slot.place.len as usize, dead: slot.dead }
    }

    /// Number of packets queued at this instant, including those marked dead.
    pub fn queued_len(&mut self) -> usize {
        let _broken_shows_at_enqueue = self.look();
        (self.user - self.kern) as usize
    }

    /// Sets `user_dead` (the paper's figure 4): the consumer skips the packet, unless it has claimed it or does so
    /// right now. No index moves. Returns `false` if it is known to be claimed.
    ///
    /// The result is its fate: `Dropped(Withdrawn)`, or that of a sent packet.
    pub fn mark_dead(&mut self, index: Index) -> bool {
        let _broken_shows_at_enqueue = self.look();
        if !(self.kern..self.user).contains(&index.0) {
            return false;
        }
        self.give_up(index.0, DropReason::Withdrawn);
        true
    }

    pub(crate) fn give_up(&mut self, position: u64, reason: DropReason) {
        record::mark_dead(self.record(position), reason);
        self.slot_mut(position).dead = Some(reason);
        self.tell_changes();
    }

    /// Tells the consumer that it has to read queued records again.
    pub(crate) fn tell_changes(&self) {
        self.shared.changes().fetch_add(1, Ordering::Release);
    }

    /// Whether `kern_acked` is set in the packet's record. The record is overwritten when the ring wraps;
    /// [`poll_completion`](Self::poll_completion) reports the fate even then.
    pub fn is_acked(&self, index: Index) -> bool {
        index.0 < self.user && record::is_acked(self.record(index.0), index.0)
    }

    /// Moves `umod_i` back over the newest `packets` packets that are not claimed; returns its new position.
    pub(crate) fn move_back(&mut self, packets: usize) -> Result<u64, Broken> {
        let wanted = self.user.saturating_sub(packets as u64);
        let mut seen = self.shared.packed().load(Ordering::Acquire);
        for _ in 0..ATTEMPTS {
            self.accept(seen)?;
            match self.try_pull_back(seen, wanted.max(self.kern)) {
                Ok(first) => return Ok(first),
                Err(newer) => seen = newer,
            }
            relax();
        }
        Err(self.breaks(Broken::Contended { attempts: ATTEMPTS }))
    }

    /// One attempt to move `umod_i` to `first`: succeeds only if the word is still `seen`, so that `kern_i` has not moved meanwhile.
    pub(crate) fn try_pull_back(&mut self, seen: u64, first: u64) -> Result<u64, u64> {
        let moved = Packed { umod: first as u32, ..Packed::from_bits(seen) }.bits();
        self.shared.packed().compare_exchange(seen, moved, Ordering::AcqRel, Ordering::Acquire)?;
        self.umod = first;
        Ok(first)
    }

    /// Returns the next fate, if any is known.
    ///
    /// Fates that found the completion ring full are only counted; see [`completions_lost`](Self::completions_lost).
    pub fn poll_completion(&mut self) -> Option<Completion> {
        if let Some(done) = self.overwritten.pop_front() {
            return Some(done);
        }
        match self.completions.poll(&self.shared) {
            Ok(Some(done)) => return Some(done),
            Ok(None) if self.attached.is_empty() => {}
            // Other rings may wait for the buffers of packets that have left.
            Ok(None) => drop(self.reclaim()),
            Err(broken) => drop(self.breaks(broken)),
        }
        None
    }

    /// Number of fates not reported because the application left the completion ring full.
    pub fn completions_lost(&self) -> u64 {
        Reader::lost(&self.shared) + self.overwritten_lost
    }

    /// Payload bytes copied into the ring's own buffers so far. Payloads of packet zones and those filled in place are
    /// not copied.
    pub fn copied_bytes(&self) -> u64 {
        self.zone.copied()
    }

    /// Number of ADUs enqueued so far; each gets exactly one fate.
    pub fn enqueued(&self) -> u64 {
        self.user - self.origin + self.overwrites
    }

    /// Reads and clears `kern_notify`: whether the consumer has stopped polling and must be woken. To be called after
    /// enqueueing (once for any number of packets), and after releasing packets that were pulled back.
    pub fn needs_notify(&mut self) -> bool {
        let word = self.shared.kern_notify();
        word.load(Ordering::Acquire) != 0 && word.swap(0, Ordering::AcqRel) != 0
    }

    /// Whether the transport has closed the ring: no more packets are sent from it.
    pub fn is_closed(&self) -> bool {
        self.shared.closed().load(Ordering::Relaxed) != 0
    }

    /// The transport's first violation of the ring's protocol, if any.
    pub fn broken(&self) -> Option<Broken> {
        self.broken
    }

    /// Writes an ADU at `user_i` without publishing it.
    pub(crate) fn append(&mut self, meta: &AduMeta, bytes: &[u8]) -> Result<Index, EnqueueError> {
        self.zone.check_len(bytes.len())?;
        self.make_room()?;
        let (used, place) = self.zone.copy_in(bytes)?;
        Ok(self.occupy(meta, used, place))
    }

    fn make_room(&mut self) -> Result<(), EnqueueError> {
        if self.is_closed() {
            return Err(EnqueueError::Closed);
        }
        if let Some(broken) = self.broken {
            return Err(broken.into());
        }
        // A buffer that was used before is in memory already; those of other zones are wanted by others.
        if self.zone.needs_fresh() || !self.attached.is_empty() || self.is_full() {
            self.reclaim()?;
        }
        if self.is_full() { Err(EnqueueError::Full) } else { Ok(()) }
    }

    /// Maximum number of packets in the ring.
    fn capacity(&self) -> u64 {
        u64::from(self.shared.geometry.slots()) - 1
    }

    /// Whether the ring is full, by the last known `dev_i`.
    fn is_full(&self) -> bool {
        self.user - self.dev == self.capacity()
    }

    /// Location of a part of a buffer, and the reference to it, which the caller adds.
    fn find(&mut self, handle: &Handle, range: &Range<usize>) -> Result<(Use, Place), EnqueueError> {
        let zone = if self.zone.owns(handle) {
            0
        } else {
            let zone = self.attached.number_of(handle, self.shared.attachments.as_ref())?;
            self.attached.note_record(zone);
            zone
        };
        Ok((Use(handle.id()), handle.place(zone, range)))
    }

    /// Drops the reference of a record to its buffer.
    pub(crate) fn let_go(&mut self, slot: Slot) {
        match (slot.used, slot.place.zone) {
            (Some(used), 0) => self.zone.let_go(used),
            (Some(Use(id)), zone) => self.attached.let_go(zone, id),
            (None, _) => {}
        }
    }

    fn occupy(&mut self, meta: &AduMeta, used: Use, place: Place) -> Index {
        let position = self.user;
        self.shared.will_write_record(self.shared.geometry.slot_of(position + AHEAD));
        *self.slots.entry(position) = Slot { meta: *meta, place, dead: None, used: Some(used) };
        self.write(position);
        self.user += 1;
        self.shared.user_i().store(self.user, Ordering::Release);
        Index(position)
    }

    /// Writes the private copy of a record to shared memory.
    pub(crate) fn write(&mut self, position: u64) {
        self.version += 2;
        let slot = self.slot(position);
        record::write(self.record(position), self.version, &slot.meta, slot.place, slot.dead);
    }

    /// Moves `umod_i` forward to `user_i`. This cannot fail: only this side moves `umod_i`, so that an addition suffices.
    pub(crate) fn publish(&mut self) -> Result<(), Broken> {
        let step = Packed::umod_step(self.user - self.umod);
        let before = self.shared.packed().fetch_add(step, Ordering::AcqRel);
        let accepted = self.accept(before);
        self.umod = self.user;
        accepted
    }

    /// Updates the consumer's position.
    pub(crate) fn look(&mut self) -> Result<u64, Broken> {
        let seen = self.shared.packed().load(Ordering::Acquire);
        self.accept(seen)?;
        Ok(self.kern)
    }

    /// Checks a packed word that was read, and adopts its `kern_i`.
    fn accept(&mut self, seen: u64) -> Result<(), Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let packed = Packed::from_bits(seen);
        let kern = at_or_after(self.kern, packed.kern);
        if packed.umod != self.umod as u32 || kern > self.umod {
            return Err(self.breaks(Broken::Packed { found: seen }));
        }
        self.kern = kern;
        Ok(())
    }

    /// Frees the buffers of sent packets.
    pub(crate) fn reclaim(&mut self) -> Result<(), Broken> {
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        let found = self.shared.dev_i().load(Ordering::Acquire);
        if found == self.dev {
            return Ok(());
        }
        if found > self.kern {
            self.look()?;
        }
        if !(self.dev..=self.kern).contains(&found) {
            return Err(self.breaks(Broken::Device { last: self.dev, found, kern: self.kern }));
        }
        while self.dev < found {
            if let Some(slot) = self.slots.pop_first() {
                self.let_go(slot);
            }
            self.dev += 1;
        }
        Ok(())
    }

    /// Records the fate of an overwritten ADU, which never reaches the consumer.
    pub(crate) fn overwrote(&mut self, slot: &Slot) {
        self.overwrites += 1;
        let fate = Fate::Dropped(slot.dead.unwrap_or(DropReason::Withdrawn));
        if self.overwritten.len() as u64 == self.shared.geometry.completions() {
            self.overwritten_lost += 1;
        } else {
            self.overwritten.push_back(Completion::new(slot.meta.seq, fate));
        }
    }

    pub(crate) fn slot(&self, position: u64) -> &Slot {
        self.slots.get(position).expect("a packet in the ring")
    }

    pub(crate) fn slot_mut(&mut self, position: u64) -> &mut Slot {
        self.slots.get_mut(position).expect("a packet in the ring")
    }

    fn record(&self, position: u64) -> &[crate::sync::AtomicU64] {
        self.shared.record(self.shared.geometry.slot_of(position))
    }

    fn breaks(&mut self, broken: Broken) -> Broken {
        *self.broken.get_or_insert(broken)
    }
}

impl Drop for Producer {
    /// Leaves the references of unsent packets in other zones to the consumer, which may still send them.
    fn drop(&mut self) {
        if self.attached.is_empty() {
            return;
        }
        // If the ring is broken, all references stay until both sides are gone.
        let _broken = self.reclaim();
        let mut left = Vec::new();
        while let Some(slot) = self.slots.pop_first() {
            if let (Some(Use(id)), 1..) = (slot.used, slot.place.zone) {
                left.push((slot.place.zone, id));
            }
        }
        match &self.shared.attachments {
            Some(shared) => {
                let handles = left.into_iter().map(|(zone, id)| self.attached.handle(zone, id)).collect();
                shared.leave_behind(handles);
            }
            #[cfg(not(loom))]
            None => {
                let of = |number| left.iter().filter(|(zone, _)| *zone == number).map(|&(_, id)| id).collect();
                self.attached.leave_to(self.shared.consumer_gone(), of);
            }
            #[cfg(loom)]
            None => {}
        }
    }
}
