//! Why a demonstration could not be held: never that it went badly.

use std::io;
use std::path::{Path, PathBuf};

use crate::report::plot::PlotError;

/// What is in the way.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// The tool is not beside the lab.
    #[error(
        "there is no {} beside this program: build it with `cargo build --release -p timeous-cli -p timeous-lab`",
        .0.display()
    )]
    NoTool(PathBuf),
    /// Program of others that is not installed.
    #[error("{0} is not installed: `scripts/tools.sh` installs what is needed")]
    NotInstalled(&'static str),
    /// A file cannot be used.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The clip is no video that can be streamed.
    #[error("{} cannot be streamed: {why}; give a raw H.264 file (Annex B)", path.display())]
    Clip {
        /// Which.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// A program ended badly, or did not do what it should.
    #[error("{program} {what}; its log, {}, ends with:\n{end}", log.display())]
    Program {
        /// Which one of which run.
        program: String,
        /// What it did.
        what: String,
        /// Where it wrote.
        log: PathBuf,
        /// Its last words.
        end: String,
    },
    /// What a program wrote is not what was expected of it.
    #[error("{} cannot be judged: {why}", path.display())]
    Record {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The system gives no free port, or tells nothing of its ports.
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
    /// A file that cannot be used.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    /// A record that cannot be judged.
    pub(crate) fn record(path: &Path, why: impl std::fmt::Display) -> Self {
        Self::Record { path: path.to_owned(), why: why.to_string() }
    }

    /// As the tool's own codes; 1 is left for a promise that does not hold.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Clip { .. } => 3,
            Self::Interrupted => 130,
            _ => 4,
        }
    }
}
