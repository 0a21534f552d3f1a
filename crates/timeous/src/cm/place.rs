//! Location of the Congestion Manager: this process, or the host's daemon.

use std::path::PathBuf;

/// Location of an application's Congestion Manager.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ManagerLocation {
    /// This process, together with its [`Sender`](crate::Sender)s and [`Receiver`](crate::Receiver)s, whose flows share
    /// path state. Not shared with other processes. The default, since it depends on no other process.
    #[default]
    InProcess,
    /// The host's daemon, shared with all its processes: at this socket, or at `TIMEOUS_SOCKET`, or the user's own in
    /// `XDG_RUNTIME_DIR`, or the host's at `/run/timeous/daemon.sock`.
    Daemon(Option<PathBuf>),
    /// The daemon if one is running, else this process. Decided once, when the manager is opened: a daemon that goes
    /// away later causes an [`Event::Disconnected`](super::Event::Disconnected), not a silent change. A daemon that
    /// refuses is an error.
    Auto,
}
