//! Errors of streams, by culprit.

use std::net::SocketAddr;

use timeous_core::Duration;
use timeous_engine::{CloseReason, ConfigError, ConnectError as DccpError, CreateError, EngineError, RemoteError};
use timeous_ipc::messages::Failure;
use timeous_ipc::{ClientError, ConnectError};
use timeous_seal::{CertificateFault, SealError};

use crate::options::contradictions::Contradiction;
use crate::security::SecurityError;
use crate::uri::UriError;

/// Party at fault for an error. These three are all: each error is somebody's to fix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Culprit {
    /// The caller of this library: the call or the URI is wrong.
    Caller,
    /// The machine or the network: another port, another name, more privileges may help.
    Environment,
    /// The other end of the stream.
    Peer,
}

/// Reason why a stream could not be opened, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The URI is wrong.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The stream's credentials cannot be used, or it needs some.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// An encrypted call failed: wrong passphrase, a certificate that is not trusted, a peer that does not encrypt, …
    #[error(transparent)]
    Sealing(#[from] SealError),
    /// The host of the URI has no address.
    #[error("unknown host '{host}': {error}")]
    UnknownHost {
        /// The host.
        host: String,
        /// Error of the resolver.
        error: std::io::Error,
    },
    /// The system refused a resource.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The daemon that should run the stream is not running, or refused the connection.
    #[error(transparent)]
    NoDaemon(#[from] ConnectError),
    /// The daemon did not open the stream, or did not make the zone.
    #[error("the daemon: {0}")]
    Daemon(#[from] ClientError),
    /// The daemon opened the stream, but its descriptors cannot be used here.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The sizes of a zone are invalid.
    #[error(transparent)]
    Zone(#[from] ConfigError),
    /// No answer from the peer.
    #[error("no answer from {remote} within {after:?}: is a receiver listening there, and does UDP pass?")]
    NoAnswer {
        /// Address called.
        remote: SocketAddr,
        /// Time waited.
        after: Duration,
    },
    /// No listener at that port, as reported by the host itself.
    #[error("connection refused: nobody listens at {remote}: is the other end running there, and is that its port?")]
    NobodyListens {
        /// Address called.
        remote: SocketAddr,
    },
    /// The name has several addresses, and none of them answered.
    #[error("no address of '{host}' can be reached: {}", listed(tried))]
    NoneAnswers {
        /// The name.
        host: String,
        /// Error of each attempt, in the order of failure.
        tried: Vec<(SocketAddr, Error)>,
    },
    /// The listener is at its limit of callers: a later attempt may succeed.
    #[error("the receiver at {remote} is serving another caller: wait, and call again")]
    Busy {
        /// Address called.
        remote: SocketAddr,
    },
    /// The connection is over.
    #[error("the connection has ended: {0}")]
    Closed(CloseReason),
}

impl From<Contradiction> for Error {
    fn from(error: Contradiction) -> Self {
        Self::Uri(error.into())
    }
}

impl Error {
    /// Error for the end of a stream with `peer`, unless it was graceful; `sealing`: the reason why its packets cannot be encrypted.
    pub(crate) fn ended(reason: CloseReason, peer: Option<SocketAddr>, sealing: Option<SealError>) -> Self {
        if reason.wants_encryption() {
            return Self::Sealing(SealError::EncryptionWanted);
        }
        match (peer, sealing) {
            (Some(remote), Some(SealError::Unreachable)) => Self::NobodyListens { remote },
            (_, Some(error)) if reason == CloseReason::Unsealed => Self::Sealing(error),
            (Some(remote), _) if reason.is_busy() => Self::Busy { remote },
            (Some(remote), _) if reason == CloseReason::Unreachable => Self::NobodyListens { remote },
            _ => Self::Closed(reason),
        }
    }

    /// Combines the errors of all addresses of a host; a single one stays as it is.
    pub(crate) fn all(host: &str, mut tried: Vec<(SocketAddr, Self)>) -> Self {
        match tried.len() {
            1 => tried.remove(0).1,
            _ => Self::NoneAnswers { host: host.to_owned(), tried },
        }
    }

    /// Whether a listener answered that is at its limit of callers: a later attempt may succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Busy { .. } => true,
            Self::Closed(reason) => reason.is_busy(),
            Self::NoneAnswers { tried, .. } => tried.iter().any(|(_, error)| error.is_busy()),
            _ => false,
        }
    }

    /// Party at fault.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::Uri(_) | Self::Security(_) | Self::Zone(_) => Culprit::Caller,
            Self::Sealing(error) => culprit_of_call(error),
            Self::Engine(error) => culprit_of_engine(error),
            Self::Daemon(error) => culprit_of_daemon(error),
            Self::UnknownHost { .. } | Self::NoDaemon(_) | Self::Remote(_) => Culprit::Environment,
            Self::NoneAnswers { tried, .. } if tried.iter().all(|(_, error)| error.culprit() != Culprit::Peer) => {
                Culprit::Environment
            }
            Self::NoAnswer { .. } | Self::NoneAnswers { .. } | Self::NobodyListens { .. } | Self::Busy { .. } => {
                Culprit::Peer
            }
            Self::Closed(reason) => culprit_of_end(*reason),
        }
    }
}

/// Party at fault for an error of the engine.
pub(crate) fn culprit_of_engine(error: &EngineError) -> Culprit {
    match error {
        // It chose the ring's size, opened too many streams, or gave one manager to two engines.
        EngineError::Ring(_)
        | EngineError::SharedRing(CreateError::Config(_))
        | EngineError::Connect(DccpError::TooMany(_))
        | EngineError::CongestionTaken => Culprit::Caller,
        _ => Culprit::Environment,
    }
}

/// Party at fault for an error of the daemon. Its limits are those of the host.
pub(crate) fn culprit_of_daemon(error: &ClientError) -> Culprit {
    match error {
        ClientError::Argument(_)
        | ClientError::Failed(Failure::UnknownFlow(_) | Failure::UnknownListener(_) | Failure::Invalid(_)) => {
            Culprit::Caller
        }
        _ => Culprit::Environment,
    }
}

/// Party at fault for a failed encrypted call: if the listener refuses our credential, ours is to be changed.
fn culprit_of_call(error: &SealError) -> Culprit {
    match error {
        SealError::WrongPassphrase
        | SealError::EncryptionWanted
        | SealError::PassphraseWanted
        | SealError::NoPassphraseThere
        | SealError::UnknownStream(_)
        | SealError::NotAllowed(_)
        | SealError::OurCertificate(_) => Culprit::Caller,
        SealError::Certificate(CertificateFault::Clock(_)) | SealError::IntegrityLimit => Culprit::Environment,
        _ => Culprit::Peer,
    }
}

fn culprit_of_end(reason: CloseReason) -> Culprit {
    match reason {
        CloseReason::Local => Culprit::Caller,
        CloseReason::Abandoned => Culprit::Environment,
        _ => Culprit::Peer,
    }
}

fn listed(tried: &[(SocketAddr, Error)]) -> String {
    let short = |(remote, error): &(SocketAddr, Error)| match error {
        Error::NoAnswer { after, .. } => format!("no answer from {remote} within {after:?}"),
        Error::NobodyListens { .. } => format!("nobody listens at {remote}"),
        Error::Busy { .. } => format!("{remote} is serving another caller"),
        other => format!("{remote}: {other}"),
    };
    tried.iter().map(short).collect::<Vec<_>>().join("; ")
}

/// Reason why an ADU was not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The packet ring is full: wait for room, or drop something of what is queued.
    #[error("the packet ring is full: wait until something has left, or give something up")]
    Full,
    /// It does not fit into one packet.
    #[error("{len} bytes do not fit into a packet: {max} is the most")]
    TooLarge {
        /// Size of the ADU.
        len: usize,
        /// Largest size that fits.
        max: usize,
    },
    /// The daemon runs the stream, and did not make the buffer's zone.
    #[error("the daemon, which runs the stream, cannot read the buffer's zone: make the zone with Uri::zone")]
    ForeignZone,
    /// The connection is over.
    #[error("the connection has ended: {0}")]
    Closed(CloseReason),
}

impl SendError {
    /// Party at fault. A full ring is the environment's: the path is slower than the source.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::Full => Culprit::Environment,
            Self::TooLarge { .. } | Self::ForeignZone => Culprit::Caller,
            Self::Closed(reason) => culprit_of_end(*reason),
        }
    }
}

#[cfg(test)]
mod tests;
