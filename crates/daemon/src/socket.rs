//! Listening socket for clients.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with};

use crate::error::DaemonError;

/// Backlog of connections to accept.
const BACKLOG: i32 = 128;

/// The socket, its file, and the lock that marks its owner.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    socket: OwnedFd,
    path: PathBuf,
    _lock: File,
}

/// A connecting client, with its credentials from the kernel.
#[derive(Debug)]
pub(crate) struct NewClient {
    pub(crate) socket: OwnedFd,
    pub(crate) pid: i32,
    pub(crate) uid: u32,
}

impl ListeningSocket {
    /// Opens the socket at `path` with the permissions `mode`. The file of a daemon that is gone is replaced.
    pub(crate) fn open(path: &Path, mode: u32) -> Result<Self, DaemonError> {
        make_directory(path)?;
        let lock = lock(path)?;
        let refused = |error: io::Error| DaemonError::Bind { path: path.to_owned(), error };
        match fs::symlink_metadata(path) {
            Ok(file) if file.file_type().is_socket() => fs::remove_file(path).map_err(refused)?,
            Ok(_) => return Err(DaemonError::NotASocket(path.to_owned())),
            Err(_) => {}
        }
        let socket = make_socket(path, mode).map_err(|errno| refused(errno.into()))?;
        // Undoes the effect of the process's umask.
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(refused)?;
        Ok(Self { socket, path: path.to_owned(), _lock: lock })
    }

    /// Returns the next connecting client, if any.
    pub(crate) fn visitor(&self) -> io::Result<Option<NewClient>> {
        let socket = match accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => socket,
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let credentials = socket_peercred(&socket)?;
        Ok(Some(NewClient { socket, pid: credentials.pid.as_raw_nonzero().get(), uid: credentials.uid.as_raw() }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl AsFd for ListeningSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for ListeningSocket {
    fn drop(&mut self) {
        // The lock is held until after this: the file is ours.
        let _ = fs::remove_file(&self.path);
    }
}

/// Creates the socket's directory, if only that is missing.
fn make_directory(path: &Path) -> Result<(), DaemonError> {
    let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) else { return Ok(()) };
    match fs::DirBuilder::new().mode(0o755).create(directory) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(DaemonError::Directory { path: directory.to_owned(), error }),
    }
}

/// Takes the lock beside the socket: one daemon at a time, whatever file exists.
fn lock(path: &Path) -> Result<File, DaemonError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let refused = |error| DaemonError::Bind { path: path.to_owned(), error };
    let file = File::options().create(true).truncate(false).write(true).open(name).map_err(refused)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(DaemonError::InUse(path.to_owned())),
        Err(error) => Err(refused(error.into())),
    }
}

fn make_socket(path: &Path, mode: u32) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    // Before it has a name: at no moment it is more accessible than `mode` says.
    fchmod(&socket, Mode::from_raw_mode(mode))?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}
