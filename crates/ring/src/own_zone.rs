//! A ring's own buffers, as its producer allocates them: a private free list before the zone's shared one.

#![allow(unsafe_code, reason = "a buffer not yet handed over is filled in place")]

use std::sync::Arc;

use crate::books::Books;
use crate::buffer::{Handle, ZoneBuffer};
use crate::buffers::Buffers;
use crate::error::EnqueueError;
use crate::record::Place;

/// Prefetch distance in free buffers, whose first bytes are in the cache of the processor that sent the old payload.
/// Chosen by us: a higher value fetches lines that may change again; a lower one waits for them.
const AHEAD: usize = 3;

/// Producer's side of a ring's own zone.
#[derive(Debug)]
pub(crate) struct OwnZone {
    books: Arc<Books>,
    /// Free list, last in first out: the latest buffer's cache lines are still warm.
    free: Vec<u32>,
    /// Payload bytes copied so far.
    copied: u64,
}

/// Reference of a record to a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Use(pub(crate) u32);

impl OwnZone {
    pub(crate) fn new(buffers: Buffers) -> Self {
        Self { books: Arc::new(Books::new(buffers)), free: Vec::new(), copied: 0 }
    }

    /// Whether a handle refers to a buffer of this zone.
    pub(crate) fn owns(&self, handle: &Handle) -> bool {
        Arc::ptr_eq(handle.books(), &self.books)
    }

    /// Shared part of the zone.
    pub(crate) fn books(&self) -> &Arc<Books> {
        &self.books
    }

    /// Payload bytes copied so far.
    pub(crate) fn copied(&self) -> u64 {
        self.copied
    }

    /// Whether the next buffer would be one that was never used, or one that came back from a handle.
    pub(crate) fn needs_fresh(&self) -> bool {
        self.free.is_empty()
    }

    /// Allocates a buffer with one reference.
    fn take(&mut self) -> Result<u32, EnqueueError> {
        if self.free.is_empty() {
            self.books.pop_all(&mut self.free);
        }
        let id = match self.free.pop() {
            Some(id) => id,
            None => self.books.take_fresh().ok_or(match self.books.buffers.count() {
                0 => EnqueueError::NoZone,
                _ => EnqueueError::ZoneFull,
            })?,
        };
        if let Some(&later) = self.free.iter().nth_back(AHEAD) {
            self.books.buffers.will_write(self.books.buffers.offset(later));
        }
        self.books.hold_first(id);
        Ok(id)
    }

    /// Copies a payload into a new buffer.
    pub(crate) fn copy_in(&mut self, bytes: &[u8]) -> Result<(Use, Place), EnqueueError> {
        self.check_len(bytes.len())?;
        let id = self.take()?;
        let offset = self.books.buffers.offset(id);
        self.books.buffers.write(offset, bytes);
        self.copied += bytes.len() as u64;
        Ok((Use(id), Place { offset: offset as u32, len: bytes.len() as u32, zone: 0 }))
    }

    /// Lets `fill` write a payload of `len` bytes into a new buffer.
    #[cfg(not(loom))]
    pub(crate) fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(Use, Place), EnqueueError> {
        self.check_len(len)?;
        let id = self.take()?;
        // Frees the buffer if `fill` panics.
        let unfilled = Unfilled { id, books: &self.books };
        // SAFETY: `take` returns only buffers to which neither a record nor a handle refers, and this one is not passed
        // on before it is filled. The consumer reads only payloads of published records.
        fill(unsafe { &mut self.books.buffers.buffer_mut(id)[..len] });
        std::mem::forget(unfilled);
        Ok((Use(id), Place { offset: self.books.buffers.offset(id) as u32, len: len as u32, zone: 0 }))
    }

    pub(crate) fn check_len(&self, len: usize) -> Result<(), EnqueueError> {
        let buffer_size = self.books.buffers.size();
        if len > buffer_size { Err(EnqueueError::TooLarge { len, buffer_size }) } else { Ok(()) }
    }

    /// Returns a buffer for the application to fill.
    pub(crate) fn buffer(&mut self) -> Result<ZoneBuffer, EnqueueError> {
        let id = self.take()?;
        Ok(ZoneBuffer::new(Handle::new(id, Arc::clone(&self.books))))
    }

    /// Drops a record's reference to its buffer.
    pub(crate) fn let_go(&mut self, used: Use) {
        let Use(id) = used;
        if self.books.drop_reference(id) {
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
        self.books.let_go(self.id);
    }
}
