//! Reasons why an experiment could not be run; bad results are no error.

use std::io;
use std::path::{Path, PathBuf};

use crate::report::plot::PlotError;

/// Reason why an experiment could not be run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// It has no real form.
    #[error("{name} runs in virtual time only: leave --real out")]
    OnlyVirtual {
        /// Name of the experiment.
        name: &'static str,
    },
    /// It has no virtual form.
    #[error("{name} runs on this machine's kernel only: add --real")]
    OnlyReal {
        /// Name of the experiment.
        name: &'static str,
    },
    /// It has no such sabotage.
    #[error("{name} has no sabotage {wanted:?}: `timeous-lab sabotages {name} --list` has the names")]
    NoSabotage {
        /// Name of the experiment.
        name: &'static str,
        /// Name of the sabotage.
        wanted: String,
    },
    /// No experiment with sabotages has this name.
    #[error("{0:?} is no experiment in virtual time: `timeous-lab list` has the names")]
    NoExperiment(String),
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

impl LabError {
    /// Creates an error for a file that cannot be written.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Creates an error for an action that the system refused.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// Exit code, as the tool's own ones; 1 is reserved for a broken bound.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::OnlyVirtual { .. } | Self::OnlyReal { .. } | Self::NoSabotage { .. } | Self::NoExperiment(_) => 2,
            _ => 4,
        }
    }
}
