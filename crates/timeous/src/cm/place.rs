//! Where the Congestion Manager is: in this process, or in the host's daemon.

use std::path::PathBuf;

/// Where the Congestion Manager of an application is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub enum Where {
    /// In this process, together with its [`Sender`](crate::Sender)s and [`Receiver`](crate::Receiver)s: their flows
    /// share what they know of a path. Nothing else on the host knows of it. The default, since it depends on nobody.
    #[default]
    InProcess,
    /// In the daemon of this host, with the flows of all its processes: at this socket, or at `TIMEOUS_SOCKET`, or the
    /// user's own in `XDG_RUNTIME_DIR`, or that of the host at `/run/timeous/daemon.sock`.
    Daemon(Option<PathBuf>),
    /// In the daemon, if one listens where it is looked for, else in this process. It is decided once, when the manager
    /// is opened: a daemon that goes away later is an [`Event::Disconnected`](super::Event::Disconnected), not a silent
    /// change of the place. One that is there and refuses is an error.
    Auto,
}
