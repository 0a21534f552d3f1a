//! Failures of a command: error message and exit code.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;

use timeous::{Culprit, SealError, SendError};
use timeous_media::{MediaError, PacketizeError};

/// Failure of a command; each kind has its own exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Invalid command line or URI: 2.
    Usage(String),
    /// Invalid input: 3.
    Input(String),
    /// Problem of the machine or network (port in use, unknown host, missing permission, full disk): 4.
    Environment(String),
    /// The peer did not answer, fell silent, or closed the connection: 5.
    Peer(String),
    /// One end does not admit or trust the other, or does not encrypt: 6.
    Untrusted(String),
}

/// Exit codes and their meaning.
pub(crate) const EXIT_CODES: [(u8, &str); 7] = [
    (0, "done; also a stream ended by Ctrl-C or SIGTERM"),
    (2, "the command line or a URI is wrong"),
    (3, "the input is not H.264, or is damaged (complete frames have been sent)"),
    (
        4,
        "a problem of the machine or the network: port in use, unknown host, file not readable or writable, output \
         exists, no daemon",
    ),
    (
        5,
        "the other end did not answer, fell silent or ended the connection (what had come has been kept); also a \
         receiver to MP4 that was stopped before the first frame",
    ),
    (
        6,
        "one end does not admit or trust the other: wrong passphrase, certificate, stream ID, or the other end does not \
         encrypt",
    ),
    (130, "a second Ctrl-C or SIGTERM: ended at once, without waiting for the stream or the sink"),
];

/// Formats the exit codes for `--help`.
pub(crate) fn exit_codes() -> String {
    EXIT_CODES.iter().fold("Exit codes:".to_owned(), |text, (code, meaning)| format!("{text}\n  {code:3}  {meaning}"))
}

impl Failure {
    /// Exit code.
    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Input(_) => 3,
            Self::Environment(_) => 4,
            Self::Peer(_) => 5,
            Self::Untrusted(_) => 6,
        })
    }

    /// Failure on a file; names the directory if that is missing.
    pub(crate) fn file(path: &str, error: &std::io::Error) -> Self {
        let directory = Path::new(path).parent().filter(|directory| !directory.as_os_str().is_empty());
        match directory.filter(|directory| error.kind() == ErrorKind::NotFound && !directory.exists()) {
            Some(directory) => {
                Self::Environment(format!("{path}: {error}; there is no directory {}", directory.display()))
            }
            None => Self::Environment(format!("{path}: {error}")),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text)
        | Self::Input(text)
        | Self::Environment(text)
        | Self::Peer(text)
        | Self::Untrusted(text)) = self;
        f.write_str(text)
    }
}

impl From<timeous::Error> for Failure {
    fn from(error: timeous::Error) -> Self {
        match (&error, error.culprit()) {
            (timeous::Error::Sealing(sealing), _) if is_admission(sealing) => Self::Untrusted(error.to_string()),
            (timeous::Error::Closed(reason), _) if reason.wants_encryption() => {
                Self::Untrusted(SealError::EncryptionWanted.to_string())
            }
            (_, Culprit::Caller) => Self::Usage(error.to_string()),
            (_, Culprit::Environment) => Self::Environment(error.to_string()),
            (_, Culprit::Peer) => Self::Peer(error.to_string()),
        }
    }
}

/// Whether the two ends spoke, and one did not take the other.
fn is_admission(error: &SealError) -> bool {
    !matches!(error, SealError::NoAnswer | SealError::Forgotten | SealError::IntegrityLimit | SealError::Protocol(_))
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
            SendError::Full | SendError::TooLarge { .. } | SendError::ForeignZone => Self::Usage(error.to_string()),
            _ => Self::Environment(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_admitted_or_not_trusted_is_told_apart_from_who_does_not_answer() {
        let failure = |error: SealError| Failure::from(timeous::Error::Sealing(error));
        assert!(matches!(failure(SealError::WrongPassphrase), Failure::Untrusted(text) if text == "wrong passphrase"));
        assert!(matches!(failure(SealError::PeerIsPlain), Failure::Untrusted(_)));
        assert!(matches!(failure(SealError::NoAnswer), Failure::Peer(_)));
        assert!(matches!(failure(SealError::Forgotten), Failure::Peer(_)));
    }
}
