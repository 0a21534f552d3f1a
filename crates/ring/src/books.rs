//! Books of a zone: reference counts of its buffers, and the list of those that are unused.
//!
//! They are private to the producers' process: a consumer only learns offsets and lengths.

#[cfg(not(loom))]
use std::sync::{Mutex, PoisonError};

use crate::buffers::Buffers;
#[cfg(not(loom))]
use crate::memory::Memory;
use crate::sync::{AtomicU32, AtomicU64, Ordering, relax};
#[cfg(not(loom))]
use crate::zone_origin::Origin;

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
    /// Transport's process that made the memory; `None` for memory of this process.
    #[cfg(not(loom))]
    pub(crate) origin: Option<Origin>,
    /// References of packets that producers left unsent to consumers in another process.
    #[cfg(not(loom))]
    lingering: Mutex<Vec<Lingering>>,
}

/// References of a ring whose producer is gone, until its consumer is gone, too.
#[cfg(not(loom))]
#[derive(Debug)]
struct Lingering {
    /// Memory of the ring.
    ring: Memory,
    /// Word that is not zero when the consumer is gone.
    gone_at: usize,
    ids: Vec<u32>,
}

impl Books {
    pub(crate) fn new(buffers: Buffers) -> Self {
        let zeros = || (0..buffers.count()).map(|_| AtomicU32::new(0)).collect();
        let (uses, next) = (zeros(), zeros());
        Self {
            buffers,
            uses,
            next,
            returned: AtomicU64::new(0),
            fresh: AtomicU32::new(0),
            #[cfg(not(loom))]
            origin: None,
            #[cfg(not(loom))]
            lingering: Mutex::default(),
        }
    }

    /// Keeps references until the consumer of `ring`, in another process, reads no more payloads: then its word `gone_at` is
    /// set.
    #[cfg(not(loom))]
    pub(crate) fn linger(&self, (ring, gone_at): (&Memory, usize), ids: Vec<u32>) {
        let lingering = Lingering { ring: ring.clone(), gone_at, ids };
        self.lingering.lock().unwrap_or_else(PoisonError::into_inner).push(lingering);
        self.release_lingering();
    }

    /// Drops the references left to consumers that are gone.
    #[cfg(not(loom))]
    fn release_lingering(&self) {
        let mut lingering = self.lingering.lock().unwrap_or_else(PoisonError::into_inner);
        lingering.retain(|left| {
            let stays = left.ring.word(left.gone_at).load(Ordering::Acquire) == 0;
            if !stays {
                left.ids.iter().for_each(|&id| self.let_go(id));
            }
            stays
        });
    }

    #[cfg(loom)]
    fn release_lingering(&self) {}

    /// Number of buffers in use at this instant.
    pub(crate) fn in_use(&self) -> usize {
        self.release_lingering();
        self.uses.iter().filter(|uses| uses.load(Ordering::Relaxed) != 0).count()
    }

    /// Takes an unused buffer, with one reference.
    pub(crate) fn take(&self) -> Option<u32> {
        let id = self.pop().or_else(|| self.take_fresh()).or_else(|| {
            self.release_lingering();
            self.pop()
        })?;
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
