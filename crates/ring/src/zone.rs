//! Packet zone: page-aligned payload buffers, allocated and freed on the producer's side.
//!
//! A buffer is in use while an unsent record or a handle of the application refers to it. The reference counts are
//! private to the producer's process: the consumer only learns offsets and lengths.

#![allow(unsafe_code, reason = "a buffer not yet handed over is filled in place")]

#[cfg(not(loom))]
use std::io;
use std::ops::Range;
#[cfg(not(loom))]
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::EnqueueError;
use crate::layout::Shared;
use crate::record::Place;

/// Prefetch distance in free buffers, whose first bytes are in the cache of the processor that sent the old payload.
/// Chosen by us: a higher value fetches lines that may change again; a lower one waits for them.
const AHEAD: usize = 3;

/// Producer's side of the zone.
#[derive(Debug)]
pub(crate) struct Zone {
    books: Arc<Books>,
    /// Free list, last in first out: the latest buffer's cache lines are still warm.
    free: Vec<u32>,
    /// Buffers from here on were never used, and take no memory yet.
    fresh: u32,
}

/// Reference counts, shared with the handles.
#[derive(Debug)]
struct Books {
    shared: Arc<Shared>,
    uses: Vec<AtomicU32>,
    /// Number of buffers last used by a handle, which has no access to the free list.
    abandoned: AtomicU32,
}

/// Reference of a record to a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use(u32);

impl Zone {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let buffers = shared.geometry.buffers();
        let uses = (0..buffers).map(|_| AtomicU32::new(0)).collect();
        let books = Arc::new(Books { shared, uses, abandoned: AtomicU32::new(0) });
        Self { books, free: Vec::new(), fresh: 0 }
    }

    /// Whether the next buffer would be one that was never used.
    pub(crate) fn needs_fresh(&self) -> bool {
        self.free.is_empty()
    }

    /// Allocates a buffer with one reference.
    fn take(&mut self) -> Result<u32, EnqueueError> {
        if self.free.is_empty() && self.books.abandoned.load(Ordering::Acquire) > 0 {
            self.collect_abandoned();
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None if self.fresh < self.books.shared.geometry.buffers() => {
                self.fresh += 1;
                self.fresh - 1
            }
            None => return Err(EnqueueError::ZoneFull),
        };
        if let Some(&later) = self.free.iter().nth_back(AHEAD) {
            self.books.shared.will_write_zone(later as usize * self.books.shared.geometry.buffer_size());
        }
        self.books.uses[id as usize].store(1, Ordering::Relaxed);
        Ok(id)
    }

    /// Only called when the free list is empty, so that every unused buffer that is not fresh is an abandoned one.
    fn collect_abandoned(&mut self) {
        self.books.abandoned.swap(0, Ordering::AcqRel);
        for (id, uses) in self.books.uses[..self.fresh as usize].iter().enumerate() {
            if uses.load(Ordering::Acquire) == 0 {
                self.free.push(id as u32);
            }
        }
    }

    /// Copies a payload into a new buffer.
    pub(crate) fn copy_in(&mut self, bytes: &[u8]) -> Result<(Use, Place), EnqueueError> {
        self.check_len(bytes.len())?;
        let id = self.take()?;
        let offset = id as usize * self.books.shared.geometry.buffer_size();
        self.books.shared.write_zone(offset, bytes);
        Ok((Use(id), Place { offset: offset as u32, len: bytes.len() as u32 }))
    }

    /// Lets `fill` write a payload of `len` bytes into a new buffer.
    #[cfg(not(loom))]
    pub(crate) fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(Use, Place), EnqueueError> {
        self.check_len(len)?;
        let id = self.take()?;
        let buffer_size = self.books.shared.geometry.buffer_size();
        let at = self.books.shared.geometry.zone_at() + id as usize * buffer_size / 8;
        // Frees the buffer if `fill` panics.
        let unfilled = Unfilled { id, books: &self.books };
        // SAFETY: `take` returns only buffers to which neither a record nor a handle refers, and this one is not passed
        // on before it is filled. The consumer reads only payloads of published records.
        fill(unsafe { self.books.shared.memory.bytes_mut(at, len) });
        std::mem::forget(unfilled);
        Ok((Use(id), Place { offset: (id as usize * buffer_size) as u32, len: len as u32 }))
    }

    pub(crate) fn check_len(&self, len: usize) -> Result<(), EnqueueError> {
        let buffer_size = self.books.shared.geometry.buffer_size();
        if len > buffer_size { Err(EnqueueError::TooLarge { len, buffer_size }) } else { Ok(()) }
    }

    /// Returns a buffer for the application to fill.
    pub(crate) fn buffer(&mut self) -> Result<ZoneBuffer, EnqueueError> {
        let id = self.take()?;
        Ok(ZoneBuffer(Handle { id, books: Arc::clone(&self.books), counts: true }))
    }

    /// Transfers the reference of a filled buffer to a record, without counting.
    pub(crate) fn hand_over(&self, buffer: ZoneBuffer, len: usize) -> Result<(Use, Place), EnqueueError> {
        let mut handle = buffer.0;
        let place = self.place_in(&handle, 0..len)?;
        handle.counts = false;
        Ok((Use(handle.id), place))
    }

    /// Adds a reference to a buffer that the application has filled.
    pub(crate) fn reuse(&self, buffer: &FrozenBuffer, range: Range<usize>) -> Result<(Use, Place), EnqueueError> {
        let handle = &buffer.0;
        let place = self.place_in(handle, range)?;
        handle.books.uses[handle.id as usize].fetch_add(1, Ordering::Relaxed);
        Ok((Use(handle.id), place))
    }

    fn place_in(&self, handle: &Handle, range: Range<usize>) -> Result<Place, EnqueueError> {
        if !Arc::ptr_eq(&handle.books, &self.books) {
            return Err(EnqueueError::ForeignBuffer);
        }
        let buffer_size = handle.len();
        if range.start > range.end || range.end > buffer_size {
            return Err(EnqueueError::BadRange { start: range.start, end: range.end, buffer_size });
        }
        let offset = handle.id as usize * buffer_size + range.start;
        Ok(Place { offset: offset as u32, len: range.len() as u32 })
    }

    /// Drops a record's reference to its buffer.
    pub(crate) fn let_go(&mut self, used: Use) {
        let Use(id) = used;
        let uses = &self.books.uses[id as usize];
        // With only this reference left, no other thread can add one.
        let last = uses.load(Ordering::Acquire) == 1;
        if last {
            uses.store(0, Ordering::Relaxed);
        }
        if last || uses.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.free.push(id);
        }
    }
}

/// Buffer that is being filled.
#[cfg(not(loom))]
struct Unfilled<'a> {
    id: u32,
    books: &'a Books,
}

#[cfg(not(loom))]
impl Drop for Unfilled<'_> {
    fn drop(&mut self) {
        self.books.uses[self.id as usize].store(0, Ordering::Release);
        self.books.abandoned.fetch_add(1, Ordering::Release);
    }
}

#[derive(Debug)]
struct Handle {
    id: u32,
    books: Arc<Books>,
    /// Whether it holds a reference; not after a transfer to a record.
    counts: bool,
}

impl Handle {
    fn len(&self) -> usize {
        self.books.shared.geometry.buffer_size()
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.books.uses[self.id as usize].fetch_add(1, Ordering::Relaxed);
        Self { id: self.id, books: Arc::clone(&self.books), counts: true }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // Counted after the decrement: the producer may find the buffer earlier, or search once in vain.
        if self.counts && self.books.uses[self.id as usize].fetch_sub(1, Ordering::AcqRel) == 1 {
            self.books.abandoned.fetch_add(1, Ordering::Release);
        }
    }
}

/// Page-aligned packet buffer, owned by the application to be filled in place.
///
/// ```
/// use timeous_core::AduMeta;
/// use timeous_ring::{Config, create};
/// let (mut producer, _consumer) = create(&Config::new(8)).unwrap();
/// let mut buffer = producer.buffer().unwrap();
/// buffer.bytes_mut()[..10].copy_from_slice(b"onetwothr3");
/// let buffer = buffer.freeze();
/// producer.enqueue_part(&AduMeta::default(), &buffer, 0..3).unwrap();
/// producer.enqueue_part(&AduMeta::default(), &buffer, 3..6).unwrap();
/// ```
#[derive(Debug)]
pub struct ZoneBuffer(Handle);

impl ZoneBuffer {
    /// Size in bytes.
    #[allow(clippy::len_without_is_empty, reason = "a buffer is never of size zero")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Mutable access to its bytes, which are arbitrary at first.
    ///
    /// The transport reads only enqueued packets. If it is another process, it could violate that and write here: share
    /// a ring only with a transport that you trust with your payloads.
    #[cfg(not(loom))]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let at = self.0.books.shared.geometry.zone_at() + self.0.id as usize * self.len() / 8;
        // SAFETY: this is the only handle of a buffer that no record refers to (`freeze` consumes it, and `take`
        // returns only unused buffers), borrowed exclusively. The consumer reads only payloads of published and unsent
        // records, none of which is in this buffer.
        unsafe { self.0.books.shared.memory.bytes_mut(at, self.len()) }
    }

    /// Reads up to `len` bytes of `file` at `offset` directly into the buffer; returns how many there were. For a file
    /// opened with `O_DIRECT`, `offset` and `len` must be multiples of its block size, and no copy is made (see
    /// [`DirectFile`](crate::DirectFile)).
    ///
    /// # Errors
    /// Errors of the file, or `InvalidInput` if `len` is longer than the buffer.
    #[cfg(not(loom))]
    pub fn read_from(&mut self, file: impl AsFd, offset: u64, len: usize) -> io::Result<usize> {
        let bytes = self.bytes_mut().get_mut(..len).ok_or(io::ErrorKind::InvalidInput)?;
        loop {
            match rustix::io::pread(&file, &mut *bytes, offset) {
                Err(rustix::io::Errno::INTR) => {}
                read => return Ok(read?),
            }
        }
    }

    /// Ends the filling, so that packets can be enqueued from it.
    pub fn freeze(self) -> FrozenBuffer {
        FrozenBuffer(self.0)
    }
}

/// Filled packet buffer, to enqueue packets from.
#[derive(Clone, Debug)]
pub struct FrozenBuffer(Handle);
