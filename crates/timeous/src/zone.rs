//! Zones: packet buffers that any number of streams send from.
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
//! The daemon makes the zones for the streams that it runs: [`Uri::zone`](crate::Uri::zone).
//!
//! [`Zone::read_file`] reads a file into buffers, straight from the disk where the file system allows it.

use crate::error::Error;
use crate::open;
use crate::uri::Uri;

pub use timeous_engine::{
    ConfigError, DirectMode, EnqueueError, FrozenBuffer, PacketZone as Zone, ReadError, ZoneBuffer, ZoneReader,
};

impl Uri {
    /// Makes a [`Zone`] of `buffers` buffers of `buffer_size` bytes, a multiple of 4096, for the streams of this URI: in the
    /// daemon's memory if it runs them, else in this process's. With `daemon=` any number of streams of that daemon send
    /// from the zone, whatever their URIs' other keys are; so do streams that this process runs.
    ///
    /// The zone counts for the user's limits at the daemon while a handle of it, or of a buffer, or a stream that has sent
    /// from it exists. After a restart of the daemon, make another.
    ///
    /// ```no_run
    /// use timeous::{Hints, Sender, Uri};
    /// let uri: Uri = "timeous://receiver.example:7000?encryption=off&daemon=auto".parse()?;
    /// let zone = uri.zone(4096, 64)?;
    /// let mut subscribers = [Sender::open(&uri)?, Sender::open(&uri)?];
    /// let mut buffer = zone.buffer()?;
    /// buffer.bytes_mut()[..14].copy_from_slice(b"position 17, 4");
    /// buffer.truncate(14);
    /// let buffer = buffer.freeze();
    /// for subscriber in &mut subscribers {
    ///     subscriber.send_shared(&buffer, Hints::default())?;
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Zone`] or [`Error::Daemon`] for sizes that are invalid, or more than the daemon grants; and
    /// [`Error::NoDaemon`].
    pub fn zone(&self, buffer_size: u32, buffers: u32) -> Result<Zone, Error> {
        open::zone(self, buffer_size, buffers)
    }
}
