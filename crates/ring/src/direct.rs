//! Files read straight into packet buffers (Lai & Kohler §3.4), past the page cache where the file system can do it.
#![cfg(not(loom))]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectMode {
    /// With `O_DIRECT`: offsets and lengths are multiples of the block size (a page always is).
    Direct,
    /// Through the page cache, because the file system has no `O_DIRECT`: one copy more.
    Cached,
}

/// A file to read packet payloads from.
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
    /// Opens a file for reading, with `O_DIRECT` if the file system has it. Look at [`mode`](Self::mode): without it
    /// the file is read all the same, but not without a copy.
    ///
    /// # Errors
    /// Those of opening a file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let (fd, mode) = match open(path, flags | OFlags::DIRECT, Mode::empty()) {
            // What open(2) says of a file system without O_DIRECT.
            Err(rustix::io::Errno::INVAL) => (open(path, flags, Mode::empty())?, DirectMode::Cached),
            opened => (opened?, DirectMode::Direct),
        };
        Ok(Self { file: File::from(fd), mode })
    }

    /// How it is read.
    pub fn mode(&self) -> DirectMode {
        self.mode
    }
}

impl AsFd for DirectFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
