//! Direct file input into packet buffers (Lai & Kohler §3.4), bypassing the page cache where possible.
#![cfg(not(loom))]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fcntl_setfl, open};

/// Mode of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectMode {
    /// With `O_DIRECT`: offsets and lengths must be multiples of the block size (a page always is).
    Direct,
    /// Through the page cache, with one more copy, as the file system does not support `O_DIRECT`.
    Cached,
}

/// File to read packet payloads from.
///
/// ```no_run
/// # use timeous_core::AduMeta;
/// # use timeous_ring::{Config, DirectFile, DirectMode, PAGE, create};
/// # let (mut producer, _consumer) = create(&Config::new(8))?;
/// let file = DirectFile::open("film.ts")?;
/// if file.mode() == DirectMode::Cached {
///     eprintln!("no O_DIRECT here: every packet is copied once more");
/// }
/// let mut buffer = producer.buffer()?;
/// let len = buffer.read_from(&file, 0, PAGE)?;
/// producer.enqueue_buffer(&AduMeta::default(), buffer, len)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DirectFile {
    file: File,
    mode: DirectMode,
}

impl DirectFile {
    /// Opens a file for reading, with `O_DIRECT` if the file system supports it. See [`mode`](Self::mode): otherwise
    /// reading works, too, but with a copy.
    ///
    /// # Errors
    /// Errors of opening a file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let (fd, mode) = match open(path, flags | OFlags::DIRECT, Mode::empty()) {
            // Result of open(2) on file systems without O_DIRECT.
            Err(rustix::io::Errno::INVAL) => (open(path, flags, Mode::empty())?, DirectMode::Cached),
            opened => (opened?, DirectMode::Direct),
        };
        Ok(Self { file: File::from(fd), mode })
    }

    /// Goes on through the page cache, for a file system that refuses to read with `O_DIRECT`.
    pub(crate) fn fall_back(&mut self) -> io::Result<()> {
        fcntl_setfl(&self.file, OFlags::empty())?;
        self.mode = DirectMode::Cached;
        Ok(())
    }

    /// Mode of reading.
    pub fn mode(&self) -> DirectMode {
        self.mode
    }
}

impl AsFd for DirectFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
