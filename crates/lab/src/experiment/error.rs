//! Why an experiment could not be run: never that it went badly.

use std::io;
use std::path::{Path, PathBuf};

use crate::report::plot::PlotError;

/// What is in the way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// It has no such form.
    #[error("{name} runs in virtual time only: leave --real out")]
    OnlyVirtual {
        /// Which.
        name: &'static str,
    },
    /// It has no such form.
    #[error("{name} runs on this machine's kernel only: add --real")]
    OnlyReal {
        /// Which.
        name: &'static str,
    },
    /// This program was built without what it needs. The text says what to do.
    #[error("{0}")]
    LeftOut(String),
    /// The machine lacks something. The text says what, and what to do.
    #[error("{0}")]
    Machine(String),
    /// The system refused something.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// A file cannot be written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A plot failed.
    #[error(transparent)]
    Plot(#[from] PlotError),
}

impl LabError {
    /// A file that cannot be written.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// Something that the system refused.
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// As the tool's own codes; 1 is left for a bound that does not hold.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::OnlyVirtual { .. } | Self::OnlyReal { .. } => 2,
            _ => 4,
        }
    }
}
