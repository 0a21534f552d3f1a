//! Settings of a daemon.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::limits::Limits;
use crate::metrics::MetricsAccess;

/// The settings of a daemon.
#[derive(Clone, Debug)]
pub struct Config {
    /// Path of its socket.
    pub path: PathBuf,
    /// Permissions of the socket's file, which decide on the users that may connect.
    pub mode: u32,
    /// Limits per user.
    pub limits: Limits,
    /// Users whose feedback is believed as the host's own: their flows share macroflows with the host's streams, with each
    /// other and, through [`kernel_tcp`](Self::kernel_tcp), with the kernel's TCP. A false report of theirs makes all of these
    /// too fast or too slow (Andersen et al. §5, "Trust issues").
    pub share_with_host: BTreeSet<u32>,
    /// File of the path memory; `None`: paths are not remembered.
    pub store: Option<PathBuf>,
    /// Address of the metrics server; `None`: no metrics.
    pub metrics: Option<SocketAddr>,
    /// Whether metrics may be read from other hosts.
    pub metrics_access: MetricsAccess,
    /// File or directory of the qlog; `None`: no events are logged.
    pub qlog: Option<PathBuf>,
    /// Directory where the kernel TCP's macroflows are pinned, if the kernel's TCP is a client of a Congestion Manager:
    /// windows are then shared with it. `None`: the kernel's TCP is not used.
    pub kernel_tcp: Option<PathBuf>,
    /// Cgroup (version 2) whose UDP datagrams the kernel counts: those of a flow that its client does not report are charged to
    /// its macroflow. `None`: what clients do not report is not known.
    pub count_datagrams: Option<PathBuf>,
}

impl Config {
    /// Returns the settings of a daemon at `path`, for all users if root runs it and for its own user if not.
    #[must_use]
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let mode = if rustix::process::geteuid().is_root() { 0o666 } else { 0o600 };
        Self {
            path: path.into(),
            mode,
            limits: Limits::default(),
            share_with_host: BTreeSet::new(),
            store: None,
            metrics: None,
            metrics_access: MetricsAccess::Loopback,
            qlog: None,
            kernel_tcp: None,
            count_datagrams: None,
        }
    }
}
