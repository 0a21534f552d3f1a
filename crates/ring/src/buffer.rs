//! Handles of packet buffers: one that is being filled, and one that is shared.

#![allow(unsafe_code, reason = "buffers are filled and read in place")]

#[cfg(not(loom))]
use std::io;
use std::ops::Range;
#[cfg(not(loom))]
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::books::Books;
use crate::error::EnqueueError;
use crate::record::Place;

/// A counted reference to a buffer.
#[derive(Debug)]
pub(crate) struct Handle {
    id: u32,
    books: Arc<Books>,
    /// Whether it holds a reference; not after a transfer to a record.
    counts: bool,
}

impl Handle {
    /// Adopts a reference.
    pub(crate) fn new(id: u32, books: Arc<Books>) -> Self {
        Self { id, books, counts: true }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn books(&self) -> &Arc<Books> {
        &self.books
    }

    /// Gives the reference up without removing it.
    pub(crate) fn transfer(mut self) {
        self.counts = false;
    }

    /// Adds a reference.
    pub(crate) fn hold(&self) {
        self.books.hold(self.id);
    }

    /// Location of a part of the buffer, in the zone that a ring names `zone`.
    pub(crate) fn place(&self, zone: u8, range: &Range<usize>) -> Place {
        let offset = self.books.buffers.offset(self.id) + range.start;
        Place { offset: offset as u32, len: range.len() as u32, zone }
    }
}

impl Clone for Handle {
    fn clone(&self) -> Self {
        self.hold();
        Self::new(self.id, Arc::clone(&self.books))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.counts {
            self.books.let_go(self.id);
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
pub struct ZoneBuffer {
    handle: Handle,
    len: usize,
}

impl ZoneBuffer {
    /// Takes the only handle of a buffer that no record refers to.
    pub(crate) fn new(handle: Handle) -> Self {
        let len = handle.books.buffers.size();
        Self { handle, len }
    }

    /// Handle and range of the first `len` bytes, which may lie behind a truncation.
    pub(crate) fn into_part(self, len: usize) -> Result<(Handle, Range<usize>), EnqueueError> {
        let range = part(0..self.handle.books.buffers.size(), &(0..len))?;
        Ok((self.handle, range))
    }

    /// Length in bytes: that of the whole buffer, unless it was [truncated](Self::truncate).
    #[allow(clippy::len_without_is_empty, reason = "a buffer has at least a page, unless it was truncated")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Shortens the buffer to its first `len` bytes, if it is longer: those that were filled.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Mutable access to its bytes, which are arbitrary at first.
    ///
    /// The transport reads only enqueued packets. If it is another process, it could violate that and write here: share
    /// a ring only with a transport that you trust with your payloads.
    #[cfg(not(loom))]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: this is the only handle of a buffer that no record refers to (`freeze` consumes it, and a zone hands
        // out only unused buffers), borrowed exclusively. A consumer reads only payloads of published and unsent
        // records, none of which is in this buffer.
        unsafe { &mut self.handle.books.buffers.buffer_mut(self.handle.id)[..self.len] }
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

    /// Ends the filling, so that packets can be enqueued from it, into any number of rings.
    pub fn freeze(self) -> FrozenBuffer {
        FrozenBuffer { handle: self.handle, range: 0..self.len }
    }
}

/// Filled packet buffer or a part of one, to enqueue packets from. A clone is another reference to the same bytes.
#[derive(Clone, Debug)]
pub struct FrozenBuffer {
    handle: Handle,
    range: Range<usize>,
}

impl FrozenBuffer {
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Range of a part within the whole buffer.
    pub(crate) fn range(&self, range: &Range<usize>) -> Result<Range<usize>, EnqueueError> {
        part(self.range.clone(), range)
    }

    /// Another reference to the bytes of `range`.
    ///
    /// ```
    /// use timeous_ring::{PAGE, PacketZone};
    /// let zone = PacketZone::new(PAGE as u32, 1).unwrap();
    /// let buffer = zone.buffer().unwrap().freeze();
    /// assert_eq!(buffer.part(1200..2400).unwrap().len(), 1200);
    /// assert!(buffer.part(0..PAGE + 1).is_err());
    /// ```
    ///
    /// # Errors
    /// [`EnqueueError::BadRange`].
    pub fn part(&self, range: Range<usize>) -> Result<Self, EnqueueError> {
        Ok(Self { range: self.range(&range)?, handle: self.handle.clone() })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The bytes, as they will be sent.
    #[cfg(not(loom))]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: bytes of a buffer with several references do not change, and a record that is the only reference
        // excludes this handle. As for `ZoneBuffer::bytes_mut`, a transport in another process is trusted not to write.
        unsafe { &self.handle.books.buffers.buffer(self.handle.id)[self.range.clone()] }
    }

    /// Makes the buffer writable again, if no other handle and no unsent packet refers to it; its whole length is
    /// available then. Otherwise returns it unchanged.
    ///
    /// ```
    /// use timeous_ring::{PAGE, PacketZone};
    /// let zone = PacketZone::new(PAGE as u32, 1).unwrap();
    /// let buffer = zone.buffer().unwrap().freeze();
    /// let other = buffer.clone();
    /// let buffer = buffer.thaw().unwrap_err();
    /// drop(other);
    /// assert_eq!(buffer.thaw().unwrap().len(), PAGE);
    /// ```
    ///
    /// # Errors
    /// The buffer itself, if it is shared.
    pub fn thaw(self) -> Result<ZoneBuffer, Self> {
        if self.handle.books.is_only(self.handle.id) { Ok(ZoneBuffer::new(self.handle)) } else { Err(self) }
    }
}

/// Part of the range `whole`, by a range within it.
fn part(whole: Range<usize>, part: &Range<usize>) -> Result<Range<usize>, EnqueueError> {
    let Range { start, end } = *part;
    if start > end || end > whole.len() {
        return Err(EnqueueError::BadRange { start, end, buffer_size: whole.len() });
    }
    Ok(whole.start + start..whole.start + end)
}
