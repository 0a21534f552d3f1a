//! What can be wrong with the path memory.

use std::path::PathBuf;

/// Why the path memory cannot be used. All are the environment's: the daemon may go on without it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("the path memory {path} is in use by {holder}: stop that one, or give each a file of its own")]
    InUse {
        /// The file.
        path: PathBuf,
        /// Who holds it, as far as that is known.
        holder: String,
    },
    /// The system does not let us at it.
    #[error("the path memory {path} cannot be used: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The database refuses for another reason.
    #[error("the path memory {path} cannot be used: {why}; move it away to begin a new one")]
    Database {
        /// The file.
        path: PathBuf,
        /// What it says.
        why: String,
    },
}

/// A damaged file was moved away and a new one begun: to be told to whoever runs the daemon.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path memory {path} is damaged ({why}): it was moved to {moved_to}, and a new one begun")]
pub struct SetAside {
    /// Where the path memory is.
    pub path: PathBuf,
    /// Where the damaged one is now. One that was set aside earlier is overwritten.
    pub moved_to: PathBuf,
    /// What was wrong with it.
    pub why: String,
}
