//! Zones: packet buffers that any number of streams of a process send from.
//!
//! A [`Zone`] hands out page-aligned buffers. A buffer is filled once, frozen, and sent with
//! [`Sender::send_shared`](crate::Sender::send_shared) over any number of streams without a copy; it is free again when
//! the last of them has sent or dropped it. Parts of a buffer are packets, too.
//!
//! ```no_run
//! use timeous::{Hints, Sender, Zone};
//! # fn pictures() -> impl Iterator<Item = Vec<u8>> { std::iter::empty() }
//! # fn fan_out(subscribers: &mut [Sender]) -> Result<(), Box<dyn std::error::Error>> {
//! // 64 buffers of 4096 bytes.
//! let zone = Zone::new(4096, 64)?;
//! let mut buffer = zone.buffer()?;
//! buffer.bytes_mut()[..14].copy_from_slice(b"position 17, 4");
//! buffer.truncate(14);
//! let buffer = buffer.freeze();
//! for subscriber in subscribers {
//!     subscriber.send_shared(&buffer, Hints::default())?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! [`Zone::read_file`] reads a file into buffers, straight from the disk where the file system allows it.

pub use timeous_engine::{
    ConfigError, DirectMode, EnqueueError, FrozenBuffer, PacketZone as Zone, ReadError, ZoneBuffer, ZoneReader,
};
