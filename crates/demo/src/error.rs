//! Reasons why a demonstration could not be run; bad results are no error.

use std::io;
use std::path::{Path, PathBuf};

use timeous_testbed::report::plot::PlotError;

/// Reason why a demonstration could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The tool is not beside this program.
    #[error(
        "there is no {} beside this program: build it with `cargo build --release -p timeous-cli -p timeous-demo`",
        .0.display()
    )]
    NoTool(PathBuf),
    /// Third-party program that is not installed.
    #[error("{0} is not installed: `scripts/tools.sh` installs what is needed")]
    NotInstalled(&'static str),
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The clip is not a streamable video.
    #[error("{} cannot be streamed: {why}; give a raw H.264 file (Annex B)", path.display())]
    Clip {
        /// Path of the clip.
        path: PathBuf,
        /// Reason.
        why: String,
    },
    /// A program failed, or did not do what it should.
    #[error("{program} {what}; its log, {}, ends with:\n{end}", log.display())]
    Program {
        /// The program and its run.
        program: String,
        /// Its failure.
        what: String,
        /// Its log file.
        log: PathBuf,
        /// End of its log.
        end: String,
    },
    /// Output of a program is not as expected.
    #[error("{} cannot be judged: {why}", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        why: String,
    },
    /// The system has no free port, or no table of its ports.
    #[error("cannot find or watch a UDP port of this host: {0}")]
    Ports(io::Error),
    /// Stopped from outside.
    #[error("stopped before the end")]
    Interrupted,
    /// A plot failed.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

impl DemoError {
    /// Creates an error for a file that cannot be used.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Creates an error for a record that cannot be evaluated.
    pub(crate) fn record(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::Record { path: path.to_owned(), why: why.to_string() }
    }

    /// Exit code, as the tool's own ones; 1 is reserved for a broken promise.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Clip { .. } => 3,
            Self::Interrupted => 130,
            _ => 4,
        }
    }
}
