//! Reasons why a run could not be made; bad results are no error.

use std::io;
use std::path::{Path, PathBuf};

use crate::report::plot::PlotError;

/// Reason why a run could not be made.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The command line asks for something that does not exist.
    #[error("{0}")]
    Usage(String),
    /// This program was built without a required feature. The text says what to do.
    #[error("{0}")]
    LeftOut(String),
    /// The machine lacks something. The text says what, and what to do.
    #[error("{0}")]
    Machine(String),
    /// The system refused an action.
    #[error("cannot {what}: {source}")]
    System {
        /// Action that failed.
        what: &'static str,
        /// Error of the system.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// A plot failed.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

impl RunError {
    /// Creates an error for a file that cannot be written.
    pub fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Creates an error for an action that the system refused.
    pub fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// Exit code, as the tool's own ones; 1 is reserved for a broken bound.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            _ => 4,
        }
    }
}
