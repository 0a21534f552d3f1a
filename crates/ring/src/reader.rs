//! Reader of a file into the buffers of a packet zone (Lai & Kohler §3.4).
#![cfg(not(loom))]

use std::io;
use std::path::Path;

use crate::buffer::ZoneBuffer;
use crate::direct::{DirectFile, DirectMode};
use crate::error::EnqueueError;
use crate::zone::PacketZone;

/// Reads a file into buffers, one after the other: straight from the disk where the file system allows it.
///
/// ```no_run
/// # use timeous_ring::{PAGE, PacketZone};
/// let zone = PacketZone::new(PAGE as u32, 64)?;
/// let mut reader = zone.read_file("film.ts")?;
/// while let Some(buffer) = reader.next_buffer()? {
///     let buffer = buffer.freeze();
///     println!("{} bytes, read with {:?}", buffer.len(), reader.mode());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ZoneReader {
    zone: PacketZone,
    file: DirectFile,
    offset: u64,
}

/// Error of reading a file into a zone.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// All buffers are in use: wait for packets to leave, and call again.
    #[error(transparent)]
    Zone(#[from] EnqueueError),
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    File(#[from] io::Error),
}

impl PacketZone {
    /// Opens a file to be read into buffers of the zone; see [`ZoneReader::mode`].
    ///
    /// # Errors
    /// Errors of opening a file.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<ZoneReader> {
        Ok(ZoneReader { zone: self.clone(), file: DirectFile::open(path)?, offset: 0 })
    }
}

impl ZoneReader {
    /// Returns the next buffer, truncated to what it was filled with: the whole buffer, except for the file's last.
    /// `None` at the end of the file.
    ///
    /// # Errors
    /// See [`ReadError`]; the next call tries again.
    pub fn next_buffer(&mut self) -> Result<Option<ZoneBuffer>, ReadError> {
        let mut buffer = self.zone.buffer()?;
        let size = buffer.len();
        let read = match buffer.read_from(&self.file, self.offset, size) {
            // Some file systems refuse the first read with O_DIRECT, not the opening.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput && self.mode() == DirectMode::Direct => {
                self.file.fall_back()?;
                buffer.read_from(&self.file, self.offset, size)?
            }
            read => read?,
        };
        self.offset += read as u64;
        buffer.truncate(read);
        Ok((read > 0).then_some(buffer))
    }

    /// Whether the file is read with `O_DIRECT`, or through the page cache with one copy by the kernel.
    pub fn mode(&self) -> DirectMode {
        self.file.mode()
    }
}
