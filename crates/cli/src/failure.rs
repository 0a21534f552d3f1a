//! What went wrong, in words and as an exit code that scripts can use.

use std::fmt;
use std::process::ExitCode;

use timeous::{Culprit, SendError};
use timeous_media::{MediaError, PacketizeError};

/// What ended a command. Each kind has an exit code of its own.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line or a URI is wrong: 2.
    Usage(String),
    /// The input is not what it should be: 3.
    Input(String),
    /// The machine or the network is in the way (a port in use, an unknown host, no right, a full disk): 4.
    Environment(String),
    /// The other end did not answer, fell silent, or ended the connection: 5.
    Peer(String),
}

/// The exit codes, for `--help`.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  2  the command line or a URI is wrong
  3  the input is not H.264, or is damaged (what was whole has been sent)
  4  the machine or the network is in the way: port in use, unknown host, file not to be read or written
  5  the other end did not answer, fell silent or ended the connection (what had come has been kept)";

impl Failure {
    /// The exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Input(_) => 3,
            Self::Environment(_) => 4,
            Self::Peer(_) => 5,
        })
    }

    /// A file that cannot be used.
    pub(crate) fn file(path: &str, error: &std::io::Error) -> Self {
        Self::Environment(format!("{path}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Input(text) | Self::Environment(text) | Self::Peer(text)) = self;
        f.write_str(text)
    }
}

impl From<timeous::Error> for Failure {
    fn from(error: timeous::Error) -> Self {
        match error.culprit() {
            Culprit::Caller => Self::Usage(error.to_string()),
            Culprit::Environment => Self::Environment(error.to_string()),
            Culprit::Peer => Self::Peer(error.to_string()),
        }
    }
}

impl From<timeous::UriError> for Failure {
    fn from(error: timeous::UriError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<MediaError> for Failure {
    fn from(error: MediaError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<PacketizeError> for Failure {
    fn from(error: PacketizeError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<SendError> for Failure {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Closed(_) => Self::Peer(error.to_string()),
            SendError::Full | SendError::TooLarge { .. } => Self::Usage(error.to_string()),
        }
    }
}
