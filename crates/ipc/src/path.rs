//! Where the daemon's socket is.

use std::env;
use std::path::{Path, PathBuf};

/// The variable that names the socket.
pub const SOCKET_VARIABLE: &str = "TIMEOUS_SOCKET";

const SYSTEM: &str = "/run/timeous/daemon.sock";
const OF_USER: &str = "timeous/daemon.sock";

/// Where a daemon that this process starts listens: `$TIMEOUS_SOCKET`; else `/run/timeous/daemon.sock` if it is root,
/// and `$XDG_RUNTIME_DIR/timeous/daemon.sock` if not. `None` if neither can be.
#[must_use]
pub fn own_socket() -> Option<PathBuf> {
    named().or_else(|| if rustix::process::geteuid().is_root() { Some(SYSTEM.into()) } else { of_user() })
}

/// Where a client looks for a daemon: `$TIMEOUS_SOCKET`; else the user's own daemon if there is a socket, and the
/// system's if not.
#[must_use]
pub fn daemon_socket() -> PathBuf {
    named().or_else(|| of_user().filter(|path| path.exists())).unwrap_or_else(|| Path::new(SYSTEM).into())
}

fn named() -> Option<PathBuf> {
    env::var_os(SOCKET_VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
}

fn of_user() -> Option<PathBuf> {
    Some(PathBuf::from(env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty())?).join(OF_USER))
}
