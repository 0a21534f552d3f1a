//! Why a daemon does not start, or ends.

use std::io;
use std::path::PathBuf;

/// The environment's faults and the caller's. What clients do wrong ends their own connection only.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// Another daemon has the socket.
    #[error("a daemon runs already at {0}: stop it first, or choose another socket with --socket")]
    InUse(PathBuf),
    /// Something that is no socket lies there.
    #[error("{0} is there and is no socket: remove it, or choose another place with --socket")]
    NotASocket(PathBuf),
    /// The directory cannot be made.
    #[error(
        "cannot make {path}: {error}; choose a socket in a directory that you may write to with --socket, or run it as root"
    )]
    Directory {
        /// Which.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// The socket cannot be made.
    #[error(
        "cannot listen at {path}: {error}; choose a socket in a directory that you may write to with --socket, or run it as root"
    )]
    Bind {
        /// Where.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// The limits cannot be.
    #[error("the limits: {0}")]
    Limits(#[from] timeous_ipc::GeometryError),
    /// Another daemon has the path memory.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// Events cannot be written down.
    #[error(transparent)]
    Qlog(#[from] crate::qlog::QlogError),
    /// Metrics cannot be served.
    #[error(transparent)]
    Metrics(#[from] crate::metrics::MetricsError),
    /// The engine did not start.
    #[error("the engine: {0}")]
    Engine(#[from] timeous_engine::EngineError),
    /// The system gave no thread, memory or descriptor, or took one away.
    #[error("the system refuses: {0}")]
    System(#[from] io::Error),
}
