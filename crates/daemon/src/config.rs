//! What a daemon is told when it starts.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::limits::Limits;
use crate::metrics::Reach;

/// The settings of a daemon.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its socket.
    pub path: PathBuf,
    /// Who may use it: the permissions of the socket's file.
    pub mode: u32,
    /// What users may have.
    pub limits: Limits,
    /// The file in which paths are remembered; `None`: they are not.
    pub store: Option<PathBuf>,
    /// Where metrics are served; `None`: they are not.
    pub metrics: Option<SocketAddr>,
    /// How far they may be seen.
    pub metrics_reach: Reach,
    /// The file or directory in which events are written down; `None`: they are not.
    pub qlog: Option<PathBuf>,
    /// Where the macroflows of the kernel's TCP are pinned, if it is a client of a Congestion Manager: windows are shared
    /// with it then. `None`: it is left alone.
    pub kernel_tcp: Option<PathBuf>,
}

impl Config {
    /// A daemon at `path`, for all users if root runs it and for its own user if not.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let mode = if rustix::process::geteuid().is_root() { 0o666 } else { 0o600 };
        Self {
            path: path.into(),
            mode,
            limits: Limits::default(),
            store: None,
            metrics: None,
            metrics_reach: Reach::Loopback,
            qlog: None,
            kernel_tcp: None,
        }
    }
}
