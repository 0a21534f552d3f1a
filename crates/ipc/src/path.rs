//! Path of the daemon's socket.

use std::env;
use std::path::{Path, PathBuf};

/// Environment variable with the socket's path.
pub const SOCKET_VARIABLE: &str = "TIMEOUS_SOCKET";

const SYSTEM: &str = "/run/timeous/daemon.sock";
const OF_USER: &str = "timeous/daemon.sock";

/// Returns the path at which a daemon of this process listens: `$TIMEOUS_SOCKET`; else `/run/timeous/daemon.sock` for
/// root and `$XDG_RUNTIME_DIR/timeous/daemon.sock` for others. `None` if that variable is not set.
#[must_use]
pub fn own_socket() -> Option<PathBuf> {
    named().or_else(|| if rustix::process::geteuid().is_root() { Some(SYSTEM.into()) } else { of_user() })
}

/// Returns the path at which a client finds the daemon: `$TIMEOUS_SOCKET`; else the socket of the user's own daemon if
/// it exists, and the system daemon's otherwise.
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
