//! File sinks: naming, overwriting, and creation with the first frame.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType, OFlags, access, fcntl_getfl, fstat};

use crate::failure::Failure;
use crate::files::{is_open_file, open_with_reader};
use crate::notice::tell;

/// Container formats that are not supported, by file name suffix.
const CONTAINERS: [&str; 5] = [".mkv", ".mov", ".avi", ".webm", ".flv"];

/// Placeholder for the number of a recording.
const NUMBER: &str = "%n";

/// Output file, opened when the first frame comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// File to be created.
    New(String),
    /// File to be created, with the next free number for each `%n`.
    Numbered(String),
    /// File that is overwritten if it exists.
    Overwritten(String),
    /// Device, FIFO or open descriptor: written to, but neither created nor truncated.
    Special(String),
}

impl Target {
    /// Checks a file name from the user, without changing anything.
    pub(super) fn new(path: &str, overwrite: bool) -> Result<Self, Failure> {
        let lower = path.to_ascii_lowercase();
        if let Some(end) = CONTAINERS.iter().find(|end| lower.ends_with(**end)) {
            return Err(Failure::Usage(format!(
                "{path}: {end} is not written; a name that ends with .mp4 gives MP4, with .ts MPEG-TS if that is sent, any other (.h264) raw H.264"
            )));
        }
        Self::of_any_kind(path, overwrite)
    }

    /// Checks a file name without regard to its suffix.
    pub(super) fn of_any_kind(path: &str, overwrite: bool) -> Result<Self, Failure> {
        if let Some(name) = Path::new(path).file_name().and_then(|name| name.to_str())
            && name.contains(NUMBER)
        {
            check_directory(path)?;
            return Ok(Self::Numbered(path.to_owned()));
        }
        if is_open_file(path) {
            if matches!(path, "/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") {
                check_standard_output()?;
            }
            return Ok(Self::Special(path.to_owned()));
        }
        // A dangling symbolic link exists, too.
        if fs::symlink_metadata(path).is_err() {
            check_directory(path)?;
            return Ok(if overwrite { Self::Overwritten(path.to_owned()) } else { Self::New(path.to_owned()) });
        }
        let found = fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
        if found.is_dir() {
            return Err(Failure::file(path, &io::ErrorKind::IsADirectory.into()));
        }
        if found.is_file() && !overwrite {
            return Err(exists(path));
        }
        access(path, Access::WRITE_OK).map_err(|error| Failure::file(path, &error.into()))?;
        Ok(if found.is_file() { Self::Overwritten(path.to_owned()) } else { Self::Special(path.to_owned()) })
    }

    /// Opens the file for writing; returns its actual name, too.
    fn open(&self) -> Result<(File, String), Failure> {
        let mut options = OpenOptions::new();
        let path = match self {
            Self::Numbered(pattern) => return open_numbered(pattern),
            Self::New(path) => {
                options.write(true).create_new(true);
                path
            }
            Self::Overwritten(path) => {
                options.write(true).create(true).truncate(true);
                path
            }
            // Append, if it is a regular file after all.
            Self::Special(path) => {
                options.append(true);
                path
            }
        };
        match options.open(path) {
            Ok(file) => Ok((file, path.clone())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(exists(path)),
            Err(error) => Err(Failure::file(path, &error)),
        }
    }

    fn name(&self) -> &str {
        let (Self::New(path) | Self::Numbered(path) | Self::Overwritten(path) | Self::Special(path)) = self;
        path
    }
}

/// Creates a numbered file; if the name was taken in the meantime, tries the next number.
fn open_numbered(pattern: &str) -> Result<(File, String), Failure> {
    let (directory, name) =
        pattern.rsplit_once('/').map_or(("", pattern), |(_, name)| (&pattern[..pattern.len() - name.len()], name));
    for number in 1u32.. {
        let path = format!("{directory}{}", name.replace(NUMBER, &number.to_string()));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Failure::file(&path, &error)),
        }
    }
    Err(Failure::Environment(format!("{pattern}: no number is free")))
}

fn exists(path: &str) -> Failure {
    Failure::Environment(format!(
        "{path} exists: give --overwrite, or a name with {NUMBER} for a new number for each recording"
    ))
}

/// Refuses a standard output that was closed: the runtime of Rust has opened /dev/null for it, for reading and writing, so that what is
/// written vanishes. `> /dev/null` opens it for writing only.
fn check_standard_output() -> Result<(), Failure> {
    let broken = |error: rustix::io::Errno| Failure::file("standard output", &error.into());
    let output = io::stdout();
    let mode = fcntl_getfl(&output).map_err(broken)? & OFlags::RWMODE;
    let null = fs::metadata("/dev/null").map(|null| null.rdev()).unwrap_or_default();
    let about = fstat(&output).map_err(broken)?;
    let is_null = FileType::from_raw_mode(about.st_mode).is_char_device() && about.st_rdev == null;
    if mode == OFlags::RDWR && is_null {
        return Err(Failure::Environment(
            "standard output is closed: open it, or name a file as SINK (/dev/null to discard the stream)".to_owned(),
        ));
    }
    Ok(())
}

/// Checks that the directory of the file exists.
fn check_directory(path: &str) -> Result<(), Failure> {
    let broken = |error: io::Error| Failure::file(path, &error);
    let directory = match Path::new(path).parent() {
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => return Err(broken(io::ErrorKind::IsADirectory.into())),
    };
    if !fs::metadata(&directory).map_err(broken)?.is_dir() {
        return Err(broken(io::ErrorKind::NotADirectory.into()));
    }
    access(&directory, Access::WRITE_OK | Access::EXEC_OK).map_err(|error| broken(error.into()))
}

/// File that is created on the first write.
pub(super) struct SinkFile {
    target: Option<Target>,
    file: Option<File>,
    name: String,
}

impl SinkFile {
    /// Prepares a file without creating it.
    pub(super) fn new(target: Target) -> Self {
        Self { name: target.name().to_owned(), target: Some(target), file: None }
    }

    /// Opens standard output.
    pub(super) fn standard_output() -> Result<Self, Failure> {
        check_standard_output()?;
        let name = "standard output".to_owned();
        let output = rustix::io::dup(io::stdout()).map_err(|error| Failure::file(&name, &error.into()))?;
        Ok(Self { target: None, file: Some(output.into()), name })
    }

    /// Name of the file.
    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    /// Appends bytes, without buffering in this process; returns their number.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(target) = &self.target
            && self.file.is_none()
        {
            let (file, name) = target.open()?;
            if matches!(target, Target::Numbered(_)) {
                tell(format_args!("recording to {name}"));
            }
            (self.file, self.name) = (Some(file), name);
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        file.write_all(bytes).map_err(|error| Failure::file(&self.name, &error))?;
        Ok(bytes.len())
    }

    /// Whether no file exists, since nothing was written.
    pub(super) fn is_missing(&self) -> bool {
        self.file.is_none() && !matches!(self.target, Some(Target::Special(_)))
    }
}

/// Replaces a file atomically for its readers. Special files are written to directly.
pub(super) fn replace(target: &Target, bytes: &[u8]) -> Result<(), Failure> {
    let path = match target {
        Target::New(path) | Target::Overwritten(path) => Path::new(path),
        Target::Numbered(_) => {
            let (mut file, name) = target.open()?;
            return file.write_all(bytes).map_err(|error| Failure::file(&name, &error));
        }
        Target::Special(path) => {
            // The stream waits for it.
            let opened = open_with_reader(OpenOptions::new().append(true), path.as_ref());
            return opened.and_then(|mut file| file.write_all(bytes)).map_err(|error| Failure::file(path, &error));
        }
    };
    // Replace the target of a symbolic link, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &path));
    written.map_err(|error| {
        // The temporary name was ours, so that nothing else is lost.
        let _ = fs::remove_file(&beside);
        Failure::file(&path.to_string_lossy(), &error)
    })
}
