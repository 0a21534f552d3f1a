//! Packet zone (Lai & Kohler §3.4): page-aligned packet buffers with reference counts, usable by any number of rings.
//!
//! A buffer is in use while an unsent record of a ring or a handle of the application refers to it. The counts are
//! private to the producers' process: a consumer only learns offsets and lengths.

use std::sync::Arc;

use crate::buffer::{Handle, ZoneBuffer};
use crate::buffers::{Buffers, Extent};
use crate::error::{ConfigError, EnqueueError};
use crate::memory::Memory;
use crate::sync::{AtomicU32, AtomicU64, Ordering, relax};

/// Packet buffers apart from any ring, shared by rings and threads of one process.
///
/// Clones are handles to one zone; its memory lives as long as any of them, any buffer, or any ring that was given one.
/// A ring lets go of the buffers of sent packets at the next call of its producer: enqueueing, `free_slots`, or
/// `poll_completion` until it returns `None`.
///
/// ```
/// use timeous_core::{AduMeta, Instant};
/// use timeous_ring::{Config, PAGE, PacketZone, create};
/// let zone = PacketZone::new(PAGE as u32, 16).unwrap();
/// let mut buffer = zone.buffer().unwrap();
/// buffer.bytes_mut()[..5].copy_from_slice(b"hello");
/// let buffer = buffer.freeze();
///
/// // Rings without buffers of their own: all packets are this one buffer.
/// let config = Config::new(8).buffers(0);
/// let mut rings: Vec<_> = (0..3).map(|_| create(&config).unwrap()).collect();
/// for (producer, _) in &mut rings {
///     producer.enqueue_part(&AduMeta::default(), &buffer, 0..5).unwrap();
/// }
/// for (_, consumer) in &mut rings {
///     let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
///     assert_eq!(consumer.payload(claimed.token).unwrap().as_ptr(), buffer.bytes().as_ptr());
/// }
/// ```
#[derive(Clone, Debug)]
pub struct PacketZone(Arc<Books>);

impl PacketZone {
    /// Creates a zone of `buffers` buffers of `buffer_size` bytes, a multiple of [`PAGE`](crate::PAGE). Buffers that
    /// were never used take no memory.
    ///
    /// # Errors
    /// No buffer, a zone of 4 GiB or more, or another buffer size.
    pub fn new(buffer_size: u32, buffers: u32) -> Result<Self, ConfigError> {
        if buffers == 0 {
            return Err(ConfigError::Buffers(buffers));
        }
        let extent = Extent::new(buffer_size, buffers)?;
        let memory = Memory::anonymous(extent.bytes() / 8);
        Ok(Self(Arc::new(Books::new(Buffers::new(memory, 0, extent)))))
    }

    /// Returns an unused buffer, to be filled in place.
    ///
    /// # Errors
    /// [`EnqueueError::ZoneFull`].
    pub fn buffer(&self) -> Result<ZoneBuffer, EnqueueError> {
        let id = self.0.take().ok_or(EnqueueError::ZoneFull)?;
        Ok(ZoneBuffer::new(Handle::new(id, Arc::clone(&self.0))))
    }

    /// Size of a buffer in bytes.
    #[must_use]
    pub fn buffer_size(&self) -> usize {
        self.0.buffers.size()
    }

    /// Number of buffers.
    #[must_use]
    pub fn buffers(&self) -> u32 {
        self.0.buffers.count()
    }

    /// Number of buffers in use at this instant. Scans the counts of all buffers.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.0.uses.iter().filter(|uses| uses.load(Ordering::Relaxed) != 0).count()
    }
}

/// Reference counts of buffers and the list of unused ones, shared by rings, handles and threads.
#[derive(Debug)]
pub(crate) struct Books {
    pub(crate) buffers: Buffers,
    uses: Box<[AtomicU32]>,
    /// Links of the list of returned buffers: an identifier plus one; zero ends it.
    next: Box<[AtomicU32]>,
    /// Head of that list as in `next`, below the number of changes, so that an exchange fails after any change.
    returned: AtomicU64,
    /// Buffers from here on were never used, and take no memory yet.
    fresh: AtomicU32,
}

impl Books {
    pub(crate) fn new(buffers: Buffers) -> Self {
        let zeros = || (0..buffers.count()).map(|_| AtomicU32::new(0)).collect();
        let (uses, next) = (zeros(), zeros());
        Self { buffers, uses, next, returned: AtomicU64::new(0), fresh: AtomicU32::new(0) }
    }

    /// Takes an unused buffer, with one reference.
    fn take(&self) -> Option<u32> {
        let id = self.pop().or_else(|| self.take_fresh())?;
        self.hold_first(id);
        Some(id)
    }

    /// Takes a buffer that was never used, without a reference.
    pub(crate) fn take_fresh(&self) -> Option<u32> {
        let mut fresh = self.fresh.load(Ordering::Relaxed);
        while fresh < self.buffers.count() {
            match self.fresh.compare_exchange(fresh, fresh + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(fresh),
                Err(newer) => fresh = newer,
            }
        }
        None
    }

    /// Removes a returned buffer.
    fn pop(&self) -> Option<u32> {
        let mut seen = self.returned.load(Ordering::Acquire);
        loop {
            let id = (seen as u32).checked_sub(1)?;
            // If another thread has taken this buffer meanwhile, the link is wrong, and the exchange fails.
            let next = self.next[id as usize].load(Ordering::Relaxed);
            match self.exchange(seen, next) {
                Ok(()) => return Some(id),
                Err(newer) => seen = newer,
            }
            relax();
        }
    }

    /// Removes all returned buffers and appends them to `free`.
    pub(crate) fn pop_all(&self, free: &mut Vec<u32>) {
        let mut seen = self.returned.load(Ordering::Acquire);
        while let Err(newer) = self.exchange(seen, 0) {
            seen = newer;
        }
        let mut head = seen as u32;
        while let Some(id) = head.checked_sub(1) {
            free.push(id);
            head = self.next[id as usize].load(Ordering::Relaxed);
        }
    }

    fn push(&self, id: u32) {
        let mut seen = self.returned.load(Ordering::Acquire);
        loop {
            self.next[id as usize].store(seen as u32, Ordering::Relaxed);
            match self.exchange(seen, id + 1) {
                Ok(()) => return,
                Err(newer) => seen = newer,
            }
            relax();
        }
    }

    fn exchange(&self, seen: u64, head: u32) -> Result<(), u64> {
        let changed = (seen >> 32).wrapping_add(1) << 32 | u64::from(head);
        self.returned.compare_exchange(seen, changed, Ordering::AcqRel, Ordering::Acquire).map(drop)
    }

    /// Notes the first reference to an unused buffer.
    pub(crate) fn hold_first(&self, id: u32) {
        self.uses[id as usize].store(1, Ordering::Relaxed);
    }

    /// Adds a reference to a buffer that has one.
    pub(crate) fn hold(&self, id: u32) {
        self.uses[id as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a reference; returns whether it was the last, so that the buffer is the caller's.
    pub(crate) fn drop_reference(&self, id: u32) -> bool {
        let uses = &self.uses[id as usize];
        // With only this reference left, no other thread can add one.
        if self.is_only(id) {
            uses.store(0, Ordering::Relaxed);
            return true;
        }
        uses.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Removes a reference, and returns the buffer to the zone if it was the last.
    pub(crate) fn let_go(&self, id: u32) {
        if self.drop_reference(id) {
            self.push(id);
        }
    }

    /// Whether there is one reference to the buffer, which is the caller's: no other thread can add one.
    pub(crate) fn is_only(&self, id: u32) -> bool {
        self.uses[id as usize].load(Ordering::Acquire) == 1
    }
}
