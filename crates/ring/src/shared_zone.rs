//! Packet zones between processes: the transport's process makes the memory, the application's process fills it.
//!
//! Reference counts stay with the application ([`PacketZone`]). The transport's process maps the memory for reading only,
//! and checks each place of a packet against the sizes with which it made the zone, never against shared memory.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::books::Books;
use crate::buffer::FrozenBuffer;
use crate::buffers::{Buffers, Extent};
use crate::consumer::Consumer;
use crate::error::{ConfigError, CreateError, EnqueueError, OpenError};
use crate::layout::Shared;
use crate::memory::Memory;
use crate::producer::Producer;
use crate::zone::PacketZone;
use crate::zone_origin::{Origin, ZoneKey};

/// Transport's side of a packet zone in shared memory, which it only reads. A clone is the same zone.
///
/// ```
/// use timeous_core::{AduMeta, Instant};
/// use timeous_ring::{Config, Limits, PAGE, PacketZone, Producer, SharedZone, ZoneKey, create_shared_for_producer};
/// // The transport's process makes the ring and the zone, and passes the descriptors.
/// let (mut consumer, ring) = create_shared_for_producer(&Config::new(8)).unwrap();
/// let (shared, memory) = SharedZone::create(PAGE as u32, 16).unwrap();
///
/// // The application's process opens both, and has the zone attached before the first packet.
/// let mut producer = Producer::open(ring, &Limits::default()).unwrap();
/// let zone = PacketZone::open(memory, PAGE as u32, 16, ZoneKey(7), ()).unwrap();
/// let buffer = zone.buffer().unwrap().freeze();
/// let request = producer.zone_to_attach(&buffer).unwrap().expect("it is not attached yet");
/// assert_eq!(request.key(), ZoneKey(7));
/// assert!(consumer.zones().attach(request.number(), &shared));
/// producer.attached(request);
/// producer.enqueue_part(&AduMeta::default(), &buffer, 0..5).unwrap();
/// assert_eq!(consumer.claim(Instant::ZERO).unwrap().unwrap().len, 5);
/// ```
#[derive(Clone, Debug)]
pub struct SharedZone(Buffers);

impl SharedZone {
    /// Creates a zone of `buffers` buffers of `buffer_size` bytes, a multiple of [`PAGE`](crate::PAGE), in a sealed memfd
    /// to be passed to the application's process.
    ///
    /// # Errors
    /// The sizes are invalid, or the system has no memory.
    pub fn create(buffer_size: u32, buffers: u32) -> Result<(Self, OwnedFd), CreateError> {
        let extent = extent(buffer_size, buffers)?;
        let (memory, fd) = Memory::shared_to_read("timeous-zone", extent.bytes() / 8)?;
        Ok((Self(Buffers::new(memory, 0, extent)), fd))
    }

    /// Size of a zone in bytes.
    ///
    /// # Errors
    /// The sizes are invalid.
    pub fn size(buffer_size: u32, buffers: u32) -> Result<u64, ConfigError> {
        Ok(extent(buffer_size, buffers)?.bytes() as u64)
    }

    /// Whether a ring, or a clone, refers to the zone.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.0.is_shared()
    }
}

fn extent(buffer_size: u32, buffers: u32) -> Result<Extent, ConfigError> {
    if buffers == 0 {
        return Err(ConfigError::Buffers(buffers));
    }
    Extent::new(buffer_size, buffers)
}

/// Table of the zones attached to a ring, for the process of its consumer, which may be used by another thread.
#[derive(Clone, Debug)]
pub struct ZoneTable(Arc<Shared>);

impl ZoneTable {
    /// Attaches a zone under the number that the application requests; `false` if it is not a number that an honest
    /// application requests.
    ///
    /// The zone that had the number before is detached: packets of it that were not sent are checked against the new one.
    pub fn attach(&self, number: u8, zone: &SharedZone) -> bool {
        self.0.attachments.as_ref().is_some_and(|table| table.try_set(number, zone.0.clone()))
    }
}

impl Consumer {
    /// Table of attached zones.
    #[must_use]
    pub fn zones(&self) -> ZoneTable {
        ZoneTable(Arc::clone(&self.shared))
    }
}

impl PacketZone {
    /// Opens a zone that a transport's process made with [`SharedZone::create`], and named `key`. It lives as long as any
    /// handle of the zone or its buffers, any ring's producer that it was attached to, and so does `keeper`.
    ///
    /// If the transport's process dies, buffers of packets that a dropped [`Producer`] left unsent stay in use.
    ///
    /// # Errors
    /// The file is not a sealed memfd of the right size, or the system refuses the mapping.
    pub fn open(
        fd: impl AsFd,
        buffer_size: u32,
        buffers: u32,
        key: ZoneKey,
        keeper: impl Any + Send + Sync,
    ) -> Result<Self, OpenError> {
        let extent = extent(buffer_size, buffers)?;
        let (expected, found) = (extent.bytes() as u64, Memory::sealed_size(&fd)?.ok_or(OpenError::NotSealed)?);
        if found != expected {
            return Err(OpenError::Size { expected, found });
        }
        let mut books = Books::new(Buffers::new(Memory::map(&fd, extent.bytes() / 8)?, 0, extent));
        books.origin = Some(Origin::new(key, keeper));
        Ok(Self(Arc::new(books)))
    }
}

/// Zone that the transport's process has to attach to a ring.
#[derive(Debug)]
pub struct ZoneRequest {
    number: u8,
    key: ZoneKey,
    books: Arc<Books>,
}

impl ZoneRequest {
    /// Number that the ring's records will use for the zone.
    #[must_use]
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Key of the zone.
    #[must_use]
    pub fn key(&self) -> ZoneKey {
        self.key
    }
}

impl Producer {
    /// Zone that the transport's process has to attach before the buffer can be enqueued; `None` if it can be already.
    ///
    /// # Errors
    /// [`EnqueueError::ForeignBuffer`] for a zone in memory of this process, [`EnqueueError::TooManyZones`], or
    /// [`EnqueueError::Broken`].
    pub fn zone_to_attach(&mut self, buffer: &FrozenBuffer) -> Result<Option<ZoneRequest>, EnqueueError> {
        let books = buffer.handle().books();
        if self.shared.attachments.is_some() || self.zone.owns(buffer.handle()) || self.attached.has(books) {
            return Ok(None);
        }
        let origin = books.origin.as_ref().ok_or(EnqueueError::ForeignBuffer)?;
        // Packets that have left make places free.
        self.reclaim()?;
        let at = self.attached.free_place()?;
        Ok(Some(ZoneRequest { number: at as u8 + 1, key: origin.key(), books: Arc::clone(books) }))
    }

    /// Notes that the transport's process has attached a zone. Ignored if buffers of other zones were enqueued, or other
    /// zones attached, since the request was made: they may have its number.
    pub fn attached(&mut self, request: ZoneRequest) {
        let at = usize::from(request.number) - 1;
        if self.attached.free_place() == Ok(at) {
            self.attached.set(at, &request.books);
        }
    }
}
