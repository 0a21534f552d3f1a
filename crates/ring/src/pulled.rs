//! What the producer has pulled back: packets that nobody else touches until they are released.

use timeous_core::{AduMeta, DropReason, Queue};

use crate::error::{Broken, EnqueueError};
use crate::producer::{Index, Producer, Queued, Slot};

/// Packets pulled back (the region from `umod_i` to `user_i`), to be rewritten, reordered or dropped.
///
/// Dropping the guard, or [`release`](Self::release), moves `umod_i` forward again. Ask
/// [`Producer::needs_notify`] afterwards: the consumer may have found nothing meanwhile, and stopped looking.
///
/// Places are numbered from the oldest on.
#[derive(Debug)]
pub struct PulledBack<'a> {
    producer: &'a mut Producer,
    first: u64,
}

/// Where [`Producer::enqueue_front`] has put a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Its place.
    pub index: Index,
    /// How many packets it overtook.
    pub overtook: usize,
    /// How many packets, queued when the call began, the consumer took before they could be pulled back.
    pub missed: usize,
}

impl Front {
    /// Whether it made it before everything that was queued when the call began.
    pub fn made_it(&self) -> bool {
        self.missed == 0
    }
}

impl Producer {
    /// Takes the newest `packets` packets back, or as many of them as the consumer has not taken yet: moves `umod_i`
    /// backwards (the paper's figures 5 and 6). What the guard holds is the producer's alone until it is released.
    ///
    /// # Errors
    /// [`Broken`] if the consumer's index makes no sense.
    pub fn pull_back(&mut self, packets: usize) -> Result<PulledBack<'_>, Broken> {
        Ok(PulledBack { first: self.move_back(packets)?, producer: self })
    }

    /// Takes everything back that the consumer has not taken yet.
    ///
    /// # Errors
    /// As [`pull_back`](Self::pull_back).
    pub fn pull_back_all(&mut self) -> Result<PulledBack<'_>, Broken> {
        self.pull_back(self.slots.len())
    }

    /// Enqueues an ADU before everything that is still queued: pulls all of it back, and puts this one first.
    ///
    /// # Errors
    /// See [`EnqueueError`]; nothing has changed then.
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

    /// How many places there are, dead ones included.
    pub fn places(&self) -> usize {
        (self.producer.user - self.first) as usize
    }

    /// The place's index in the ring.
    pub fn index(&self, place: usize) -> Option<Index> {
        self.position(place).ok().map(Index)
    }

    /// What is there, dead or not.
    pub fn queued(&self, place: usize) -> Option<Queued> {
        self.position(place).ok().map(|position| self.producer.describe(position))
    }

    /// Gives up the packet at `place`; its fate is `Dropped(Withdrawn)`. Beyond the end nothing happens.
    pub fn withdraw(&mut self, place: usize) {
        self.drop_at(place, DropReason::Withdrawn);
    }

    /// Replaces the packet at `place`, or brings a dead one back to life. If the ADU's number changes, the fate of the
    /// old one is `Dropped`.
    ///
    /// # Errors
    /// See [`EnqueueError`]; nothing has changed then.
    pub fn rewrite(&mut self, place: usize, meta: &AduMeta, bytes: &[u8]) -> Result<(), EnqueueError> {
        let position = self.position(place)?;
        let (used, written) = self.producer.zone.copy_in(bytes)?;
        let fresh = Slot { meta: *meta, place: written, dead: None, used: Some(used) };
        let mut old = std::mem::replace(self.producer.slot_mut(position), fresh);
        if let Some(used) = old.used.take() {
            self.producer.zone.let_go(used);
        }
        if old.meta.seq != meta.seq {
            self.producer.overwrote(&old);
        }
        self.producer.write(position);
        Ok(())
    }

    /// Changes what is known of the packet at `place`, leaving its payload alone.
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

    /// Exchanges two packets. `false`, and nothing happens, if either place is beyond the end.
    pub fn swap(&mut self, one: usize, other: usize) -> bool {
        let (Ok(a), Ok(b)) = (self.position(one), self.position(other)) else { return false };
        if a != b {
            let geometry = self.producer.shared.geometry;
            self.producer.slots.swap(geometry.slot_of(a), geometry.slot_of(b));
            self.producer.write(a);
            self.producer.write(b);
        }
        true
    }

    /// Puts the packet at `place` before all others, which keep their order. `false` if `place` is beyond the end.
    pub fn move_to_front(&mut self, place: usize) -> bool {
        self.shift(place, 0)
    }

    /// Puts the packet at `from` to place `to`, moving those between by one. `false` if either is beyond the end.
    pub fn shift(&mut self, from: usize, to: usize) -> bool {
        let (Ok(start), Ok(end)) = (self.position(from), self.position(to)) else { return false };
        let geometry = self.producer.shared.geometry;
        let mut at = start;
        while at != end {
            let next = if at < end { at + 1 } else { at - 1 };
            self.producer.slots.swap(geometry.slot_of(at), geometry.slot_of(next));
            self.producer.write(at);
            at = next;
        }
        if start != end {
            self.producer.write(end);
        }
        true
    }

    /// Adds a packet behind all others, to be published with them.
    ///
    /// # Errors
    /// See [`EnqueueError`]; nothing has changed then.
    pub fn push(&mut self, meta: &AduMeta, bytes: &[u8]) -> Result<usize, EnqueueError> {
        self.producer.append(meta, bytes)?;
        Ok(self.places() - 1)
    }

    /// Hands everything back to the consumer, as dropping the guard does.
    pub fn release(self) {}

    fn position(&self, place: usize) -> Result<u64, EnqueueError> {
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
        // A broken word was noted by the producer, and shows at the next call that can say so.
        let _noted = self.producer.publish();
    }
}
