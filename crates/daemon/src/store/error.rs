//! Errors of the path memory.

use std::path::PathBuf;

/// Reason why the path memory cannot be used. All are environment errors: the daemon may run without it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process has it open.
    #[error("the path memory {path} is in use by {holder}: stop that one, or give each a file of its own")]
    InUse {
        /// The file.
        path: PathBuf,
        /// Process that holds it, as far as that is known.
        holder: String,
    },
    /// The system denies access.
    #[error("the path memory {path} cannot be used: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// Another error of the database.
    #[error("the path memory {path} cannot be used: {why}; move it away to begin a new one")]
    Database {
        /// The file.
        path: PathBuf,
        /// The database's error.
        why: String,
    },
}

/// A damaged file was moved away and a new one created: to be reported to the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the path memory {path} is damaged ({why}): it was moved to {moved_to}, and a new one begun")]
pub struct SetAside {
    /// Path of the path memory.
    pub path: PathBuf,
    /// New path of the damaged file. An earlier one is overwritten.
    pub moved_to: PathBuf,
    /// The damage found.
    pub why: String,
}
