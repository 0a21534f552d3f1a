//! Packet zone (Lai & Kohler §3.4): page-aligned packet buffers with reference counts, usable by any number of rings.
//!
//! A buffer is in use while an unsent record of a ring or a handle of the application refers to it.

use std::sync::Arc;

use crate::books::Books;
use crate::buffer::{Handle, ZoneBuffer};
use crate::buffers::{Buffers, Extent};
use crate::error::{ConfigError, EnqueueError};
use crate::memory::Memory;

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
pub struct PacketZone(pub(crate) Arc<Books>);

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
        self.0.in_use()
    }
}
