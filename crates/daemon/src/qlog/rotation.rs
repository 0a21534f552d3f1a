//! File rotation, with bounded size and number of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bounds of a qlog: a full `cm.sqlog` becomes `cm.1.sqlog`, that one `cm.2.sqlog`, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum file size in bytes.
    pub bytes: u64,
    /// Number of full files that are kept.
    pub kept: u32,
}

impl Default for Bounds {
    /// Returns 16 MiB, and three full files.
    fn default() -> Self {
        Self { bytes: 16 << 20, kept: 3 }
    }
}

#[derive(Debug)]
pub(super) struct Rotation {
    path: PathBuf,
    bounds: Bounds,
    /// Header of each file.
    header: Vec<u8>,
    file: BufWriter<File>,
    written: u64,
}

impl Rotation {
    pub(super) fn begin(path: &Path, bounds: Bounds, header: io::Result<Vec<u8>>) -> io::Result<Self> {
        let header = header?;
        make_room(path, bounds)?;
        let mut file = create(path)?;
        file.write_all(&header)?;
        file.flush()?;
        let written = header.len() as u64;
        Ok(Self { path: path.to_owned(), bounds, header, file, written })
    }

    pub(super) fn write(&mut self, record: &[u8]) -> io::Result<()> {
        if self.written + record.len() as u64 > self.bounds.bytes && self.written > self.header.len() as u64 {
            self.file.flush()?;
            make_room(&self.path, self.bounds)?;
            self.file = create(&self.path)?;
            self.file.write_all(&self.header)?;
            self.written = self.header.len() as u64;
        }
        self.written += record.len() as u64;
        self.file.write_all(record)
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn create(path: &Path) -> io::Result<BufWriter<File>> {
    // Private: the log shows this host's peers.
    Ok(BufWriter::new(OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?))
}

fn make_room(path: &Path, bounds: Bounds) -> io::Result<()> {
    // Renaming /dev/null would take it from all programs of the host.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("a full log is renamed, and this is no regular file: name a file"));
    }
    for number in (0..=bounds.kept).rev() {
        let from = numbered(path, number);
        let moved =
            if number == bounds.kept { fs::remove_file(&from) } else { fs::rename(&from, numbered(path, number + 1)) };
        match moved {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    if number == 0 {
        return path.to_owned();
    }
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}
