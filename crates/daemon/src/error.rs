//! Errors of the daemon at its start and while it runs.

use std::io;
use std::path::PathBuf;

/// Faults of the environment or the caller. A client's errors end that client's connection only.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another daemon listens at the socket.
    #[error("a daemon runs already at {0}: stop it first, or choose another socket with --socket")]
    InUse(PathBuf),
    /// The socket's path exists and is no socket.
    #[error("{0} is there and is no socket: remove it, or choose another place with --socket")]
    NotASocket(PathBuf),
    /// The socket's directory cannot be created.
    #[error(
        "cannot make {path}: {error}; choose a socket in a directory that you may write to with --socket, or run it as root"
    )]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The socket cannot be created.
    #[error(
        "cannot listen at {path}: {error}; choose a socket in a directory that you may write to with --socket, or run it as root"
    )]
    Bind {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Invalid limits.
    #[error("the limits: {0}")]
    Limits(#[from] timeous_ipc::GeometryError),
    /// Path memory failed to open, for example because another daemon uses it.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// The event log failed to open.
    #[error(transparent)]
    Qlog(#[from] crate::qlog::QlogError),
    /// The metrics server failed to start.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::MetricsError),
    /// The engine failed to start.
    #[error("the engine: {0}")]
    Engine(#[from] timeous_engine::EngineError),
    /// The kernel does not count datagrams.
    #[error("datagrams of plain sockets cannot be counted: {0}")]
    Datagrams(#[from] timeous_kernel::KernelError),
    /// A system call failed: no thread, memory or descriptor.
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}
