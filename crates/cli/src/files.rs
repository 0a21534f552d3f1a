//! Files that a command names: no output is its source or another output, and opening a log never hangs.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use timeous::clock;
use timeous::core::Duration;

use crate::failure::Failure;

/// Longest wait for the reader of a FIFO, which may be started at the same time. Chosen by us: a higher value tells later that there is none.
const READER_WAIT: Duration = Duration::from_secs(1);
/// Interval of attempts to open a FIFO. Chosen by us: a higher value begins later.
const ATTEMPT: Duration = Duration::from_millis(20);

/// Whether the name is an open descriptor of this process, such as standard output.
pub(crate) fn is_open_file(path: &str) -> bool {
    matches!(path, "/dev/stdout" | "/dev/stderr") || path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/")
}

/// Identity of a regular file.
#[derive(PartialEq)]
enum Identity {
    /// Device and inode of a file that exists.
    Inode(u64, u64),
    /// Path of a file that does not exist yet.
    Path(PathBuf),
}

impl Identity {
    /// Identity of the file at this path; devices, pipes and open descriptors have none.
    fn of(path: &str) -> Option<Self> {
        if matches!(path, "-" | "/dev/stdin") || is_open_file(path) {
            return None;
        }
        match fs::metadata(path) {
            Ok(about) => about.is_file().then(|| Self::Inode(about.dev(), about.ino())),
            Err(_) => {
                let path = Path::new(path);
                let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
                let directory = fs::canonicalize(directory.unwrap_or(Path::new("."))).ok()?;
                Some(Self::Path(directory.join(path.file_name()?)))
            }
        }
    }
}

/// Refuses a command line that names one file twice. Each file comes with its argument's name; the first may be read,
/// all others are outputs.
pub(crate) fn check_distinct(files: &[(&str, Option<&str>)]) -> Result<(), Failure> {
    let named = files.iter().filter_map(|&(name, path)| Some((name, path?, Identity::of(path?)?)));
    let mut before: Vec<(&str, Identity)> = Vec::new();
    for (name, path, identity) in named {
        if let Some((other, _)) = before.iter().find(|(_, known)| *known == identity) {
            return Err(Failure::Usage(format!("{path} is both {other} and {name}: name another file for {name}")));
        }
        before.push((name, identity));
    }
    Ok(())
}

/// Creates or truncates a log. A FIFO needs a reader.
///
/// # Errors
/// See [`open_with_reader`].
pub(crate) fn create_log(path: &Path) -> io::Result<File> {
    open_with_reader(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Opens a file for writing. A FIFO needs a reader: without one, opening it would hang, and signals would not end it.
///
/// # Errors
/// The system's error, or what to do about a FIFO without a reader.
#[expect(clippy::disallowed_methods, reason = "nothing else runs on this thread before the file is open")]
pub(crate) fn open_with_reader(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.custom_flags(OFlags::NONBLOCK.bits() as i32);
    let deadline = clock::now() + READER_WAIT;
    let file = loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) && is_fifo(path) => {
                if clock::now() >= deadline {
                    return Err(io::Error::other("nothing reads this pipe: start its reader first"));
                }
                thread::sleep(ATTEMPT.into());
            }
            opened => break opened?,
        }
    };
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file)
}

fn is_fifo(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_once_by_whatever_path() {
        let directory = std::env::temp_dir().join(format!("timeous-files-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
        let [old, link, hard, dotted] = ["old", "link", "hard", "./old"].map(path);
        fs::write(&old, "kept").unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        fs::hard_link(&old, &hard).unwrap();
        let [new, also_new, other] = ["new", "./new", "other"].map(path);
        let check = |first: &str, second: &str| check_distinct(&[("SINK", Some(first)), ("--stats", Some(second))]);
        for (first, second) in [(&old, &old), (&old, &link), (&hard, &old), (&old, &dotted), (&new, &also_new)] {
            assert!(matches!(check(first, second), Err(Failure::Usage(_))), "{first} {second}");
        }
        for (first, second) in [(&old, &new), (&new, &other)] {
            assert!(check(first, second).is_ok(), "{first} {second}");
        }
        for special in ["-", "/dev/null", "/dev/stdout", "/dev/fd/1"] {
            assert!(check(special, special).is_ok(), "{special}");
        }
        assert!(check_distinct(&[("SINK", Some(&new)), ("--frames", None), ("--stats", None)]).is_ok());
        fs::remove_dir_all(&directory).unwrap();
    }
}
