//! Packets that the producer has pulled back for exclusive access until they are released.

use timeous_core::{AduMeta, DropReason, Queue};

use crate::error::{Broken, EnqueueError};
use crate::producer::{Index, Producer, Queued, Slot};

/// Packets pulled back (from `umod_i` to `user_i`), to be rewritten, reordered or dropped.
///
/// Dropping the guard, or [`release`](Self::release), moves `umod_i` forward again. Call [`Producer::needs_notify`]
/// afterwards: the consumer may have stopped polling meanwhile.
///
/// Places are numbered from the oldest packet.
#[derive(Debug)]
pub struct PulledBack<'a> {
    producer: &'a mut Producer,
    first: u64,
}

/// Result of [`Producer::enqueue_front`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Position of the packet.
    pub index: Index,
    /// Number of packets that it overtook.
    pub overtook: usize,
    /// Number of packets, queued at the start of the call, that the consumer claimed first.
    pub missed: usize,
}

impl Front {
    /// Whether it precedes all packets that were queued at the start of the call.
    pub fn made_it(&self) -> bool {
        self.missed == 0
    }
}

impl Producer {
    /// Pulls back the newest `packets` packets, as far as the consumer has not claimed them: moves `umod_i` backwards
    /// (the paper's figures 5 and 6). The guard gives exclusive access until it is released.
    ///
    /// # Errors
    /// [`Broken`] if the consumer's index is invalid.
    pub fn pull_back(&mut self, packets: usize) -> Result<PulledBack<'_>, Broken> {
        Ok(PulledBack { first: self.move_back(packets)?, producer: self })
    }

    /// Pulls back all unclaimed packets.
    ///
    /// # Errors
    /// As [`pull_back`](Self::pull_back).
    pub fn pull_back_all(&mut self) -> Result<PulledBack<'_>, Broken> {
        self.pull_back(usize::MAX)
    }

    /// Enqueues an ADU before all queued ones: pulls all of them back, and puts this one first.
    ///
    /// # Errors
    /// See [`EnqueueError`]; the ring is unchanged then.
    pub fn enqueue_front(&mut self, meta: &AduMeta, bytes: &[u8]) -> Result<Front, EnqueueError> {
        let before = self.look()?;
        let mut pulled = self.pull_back_all()?;
        let overtook = pulled.places();
        let first = pulled.first();
        pulled.push(meta, bytes)?;
        pulled.move_to_front(overtook);
        Ok(Front { index: Index(first), overtook, missed: (first - before) as usize })
    }
}

impl PulledBack<'_> {
    pub(crate) fn first(&self) -> u64 {
        self.first
    }

    #[cfg(not(loom))]
    pub(crate) fn producer(&self) -> &Producer {
        self.producer
    }

    #[cfg(not(loom))]
    pub(crate) fn producer_mut(&mut self) -> &mut Producer {
        self.producer
    }

    /// Number of places, including dead packets.
    pub fn places(&self) -> usize {
        (self.producer.user - self.first) as usize
    }

    /// Index of the place in the ring.
    pub fn index(&self, place: usize) -> Option<Index> {
        self.position(place).ok().map(Index)
    }

    /// Place of the packet `index`; `None` if it was not pulled back.
    pub fn place_of(&self, index: Index) -> Option<usize> {
        let place = usize::try_from(index.0.checked_sub(self.first)?).ok()?;
        (place < self.places()).then_some(place)
    }

    /// Packet at the place, dead or not.
    pub fn queued(&self, place: usize) -> Option<Queued> {
        self.position(place).ok().map(|position| self.producer.describe(position))
    }

    /// Withdraws the packet at `place`; its fate is `Dropped(Withdrawn)`. Ignored beyond the end.
    pub fn withdraw(&mut self, place: usize) {
        self.drop_at(place, DropReason::Withdrawn);
    }

    /// Replaces the packet at `place`, which may be dead. If the sequence number changes, the fate of the old ADU is `Dropped`.
    ///
    /// # Errors
    /// See [`EnqueueError`]; the ring is unchanged then.
    pub fn rewrite(&mut self, place: usize, meta: &AduMeta, bytes: &[u8]) -> Result<(), EnqueueError> {
        let position = self.position(place)?;
        let (used, written) = self.producer.zone.copy_in(bytes)?;
        let fresh = Slot { meta: *meta, place: written, dead: None, used: Some(used) };
        let old = std::mem::replace(self.producer.slot_mut(position), fresh);
        if old.meta.seq != meta.seq {
            self.producer.overwrote(&old);
        }
        self.producer.let_go(old);
        self.producer.write(position);
        Ok(())
    }

    /// Replaces the metadata of the packet at `place` and keeps its payload.
    ///
    /// # Errors
    /// [`EnqueueError::NoSuchPlace`].
    pub fn set_meta(&mut self, place: usize, meta: &AduMeta) -> Result<(), EnqueueError> {
        let position = self.position(place)?;
        let slot = self.producer.slot_mut(position);
        let old = Slot { meta: slot.meta, dead: slot.dead, ..Slot::default() };
        slot.meta = *meta;
        if old.meta.seq != meta.seq {
            slot.dead = None;
            self.producer.overwrote(&old);
        }
        self.producer.write(position);
        Ok(())
    }

    /// Swaps two packets. `false`, without effect, if either place is beyond the end.
    pub fn swap(&mut self, one: usize, other: usize) -> bool {
        let (Ok(a), Ok(b)) = (self.position(one), self.position(other)) else { return false };
        if a != b {
            self.producer.slots.swap(a, b);
            self.producer.write(a);
            self.producer.write(b);
        }
        true
    }

    /// Moves the packet at `place` before all others, which keep their order. `false` if `place` is beyond the end.
    pub fn move_to_front(&mut self, place: usize) -> bool {
        self.shift(place, 0)
    }

    /// Moves the packet at `from` to `to`, shifting those between by one. `false` if either is beyond the end.
    pub fn shift(&mut self, from: usize, to: usize) -> bool {
        let (Ok(start), Ok(end)) = (self.position(from), self.position(to)) else { return false };
        let mut at = start;
        while at != end {
            let next = if at < end { at + 1 } else { at - 1 };
            self.producer.slots.swap(at, next);
            self.producer.write(at);
            at = next;
        }
        if start != end {
            self.producer.write(end);
        }
        true
    }

    /// Appends a packet, to be published with the others.
    ///
    /// # Errors
    /// See [`EnqueueError`]; the ring is unchanged then.
    pub fn push(&mut self, meta: &AduMeta, bytes: &[u8]) -> Result<usize, EnqueueError> {
        self.producer.append(meta, bytes)?;
        Ok(self.places() - 1)
    }

    /// Returns the packets to the consumer, like dropping the guard.
    pub fn release(self) {}

    pub(crate) fn position(&self, place: usize) -> Result<u64, EnqueueError> {
        let len = self.places();
        if place < len { Ok(self.first + place as u64) } else { Err(EnqueueError::NoSuchPlace { index: place, len }) }
    }
}

impl Queue for PulledBack<'_> {
    fn len(&self) -> usize {
        self.places()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        let slot = self.producer.slot(self.position(index).ok()?);
        slot.dead.is_none().then_some((&slot.meta, slot.place.len as usize))
    }

    fn drop_at(&mut self, index: usize, reason: DropReason) {
        if let Ok(position) = self.position(index)
            && self.producer.slot(position).dead.is_none()
        {
            self.producer.give_up(position, reason);
        }
    }
}

impl Drop for PulledBack<'_> {
    fn drop(&mut self) {
        self.producer.tell_changes();
        // An invalid word was noted by the producer, and is reported by the next call that returns errors.
        let _noted = self.producer.publish();
    }
}
