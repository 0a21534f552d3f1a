//! Files as sinks: what may be written, under which name, and when it is made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::failure::Failure;

/// Containers that are not written, by the ends of their names.
const CONTAINERS: [&str; 6] = [".ts", ".mkv", ".mov", ".avi", ".webm", ".flv"];

/// What the number of a recording is written for.
const NUMBER: &str = "%n";

/// A file that can be written when the first frame comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A file that is made.
    New(String),
    /// A file that is made with the next free number for each `%n`.
    Numbered(String),
    /// A file that is overwritten if it exists.
    Overwritten(String),
    /// A device, a FIFO or an open file under another name: written to, and neither made nor truncated.
    Special(String),
}

impl Target {
    /// Looks at a name given by the user, and changes nothing.
    pub(super) fn new(path: &str, overwrite: bool) -> Result<Self, Failure> {
        let lower = path.to_ascii_lowercase();
        if let Some(end) = CONTAINERS.iter().find(|end| lower.ends_with(**end)) {
            return Err(Failure::Usage(format!(
                "{path}: {end} is not written; a name that ends with .mp4 gives MP4, any other (.h264) raw H.264"
            )));
        }
        Self::of_any_kind(path, overwrite)
    }

    /// The same for a file whose name says nothing about its format.
    pub(super) fn of_any_kind(path: &str, overwrite: bool) -> Result<Self, Failure> {
        if let Some(name) = Path::new(path).file_name().and_then(|name| name.to_str())
            && name.contains(NUMBER)
        {
            check_directory(path)?;
            return Ok(Self::Numbered(path.to_owned()));
        }
        if is_open_file(path) {
            return Ok(Self::Special(path.to_owned()));
        }
        // A link that leads nowhere exists, too.
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

    /// Opens the file for writing, and gives the name that it has.
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
            // Behind what is there already, if it is a file after all.
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

/// A file that was not there when it was looked for may be there by now: then the next number is taken.
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

/// Whether the name stands for a file that this process has open, such as standard output.
fn is_open_file(path: &str) -> bool {
    matches!(path, "/dev/stdout" | "/dev/stderr") || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")
}

/// A file can be made there.
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

/// A file that is made when there is something to write.
pub(super) struct SinkFile {
    target: Option<Target>,
    file: Option<File>,
    name: String,
}

impl SinkFile {
    /// A file that does not exist yet.
    pub(super) fn new(target: Target) -> Self {
        Self { name: target.name().to_owned(), target: Some(target), file: None }
    }

    /// Standard output.
    pub(super) fn standard_output() -> Result<Self, Failure> {
        let name = "standard output".to_owned();
        let output = rustix::io::dup(io::stdout()).map_err(|error| Failure::file(&name, &error.into()))?;
        Ok(Self { target: None, file: Some(output.into()), name })
    }

    /// Its name.
    pub(super) fn name(&self) -> String {
        self.name.clone()
    }

    /// Writes bytes behind the others, past all buffers of this process; their number.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<usize, Failure> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(target) = &self.target
            && self.file.is_none()
        {
            let (file, name) = target.open()?;
            if matches!(target, Target::Numbered(_)) {
                eprintln!("timeous: recording to {name}");
            }
            (self.file, self.name) = (Some(file), name);
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        file.write_all(bytes).map_err(|error| Failure::file(&self.name, &error))?;
        Ok(bytes.len())
    }

    /// Whether the file was neither there before nor made, since nothing was written.
    pub(super) fn is_missing(&self) -> bool {
        self.file.is_none() && !matches!(self.target, Some(Target::Special(_)))
    }
}

/// Writes a whole file in the place of another, so that readers see the one or the other. Special files are written to.
pub(super) fn replace(target: &Target, bytes: &[u8]) -> Result<(), Failure> {
    let path = match target {
        Target::New(path) | Target::Overwritten(path) => Path::new(path),
        Target::Numbered(_) | Target::Special(_) => {
            let (mut file, name) = target.open()?;
            return file.write_all(bytes).map_err(|error| Failure::file(&name, &error));
        }
    };
    // The file that a link leads to is replaced, not the link.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, &path));
    written.map_err(|error| {
        // The name was ours: nothing else is lost.
        let _ = fs::remove_file(&beside);
        Failure::file(&path.to_string_lossy(), &error)
    })
}
