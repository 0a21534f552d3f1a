//! What can go wrong with a stream, by culprit.

use std::net::SocketAddr;

use timeous_core::Duration;
use timeous_engine::{CloseReason, EngineError, RemoteError};
use timeous_ipc::{ClientError, ConnectError};

use crate::uri::UriError;

/// Whose fault an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Culprit {
    /// Whoever calls this library: the call or the URI has to be mended.
    Caller,
    /// The machine or the network: another port, another name, more rights.
    Environment,
    /// The other end of the stream.
    Peer,
}

/// Why a stream cannot be opened, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URI.
    #[error(transparent)]
    Uri(#[from] UriError),
    /// The host of the URI has no address.
    #[error("unknown host '{host}': {error}")]
    UnknownHost {
        /// The host.
        host: String,
        /// The resolver's words.
        error: std::io::Error,
    },
    /// The machine refused.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The daemon that was to run the stream is not there, or would have nothing of us.
    #[error(transparent)]
    NoDaemon(#[from] ConnectError),
    /// The daemon did not open the stream.
    #[error("the daemon: {0}")]
    Daemon(#[from] ClientError),
    /// The daemon opened the stream, but what it gave cannot be used here.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// Nobody answers there.
    #[error("no answer from {remote} within {after:?}: is a receiver listening there, and does UDP pass?")]
    NoAnswer {
        /// Who was called.
        remote: SocketAddr,
        /// For how long.
        after: Duration,
    },
    /// Nobody listens at that port, as the host itself says.
    #[error("nobody listens at {remote} (port unreachable): is the other end running there, and is that its port?")]
    NobodyListens {
        /// Who was called.
        remote: SocketAddr,
    },
    /// The name has several addresses, and a call to none of them was answered.
    #[error("no address of '{host}' can be reached: {}", listed(tried))]
    NoneAnswers {
        /// The name.
        host: String,
        /// What became of each attempt, in the order in which they failed.
        tried: Vec<(SocketAddr, Error)>,
    },
    /// The listener there has no place for this caller: it serves as many as it takes. It may be tried again later.
    #[error("the receiver at {remote} is serving another caller: wait, and call again")]
    Busy {
        /// Who was called.
        remote: SocketAddr,
    },
    /// The connection is over.
    #[error("the connection has ended: {0}")]
    Closed(CloseReason),
}

impl Error {
    /// The end of a stream with `peer`, if it is none in order.
    pub(crate) fn ended(reason: CloseReason, peer: Option<SocketAddr>) -> Self {
        match peer {
            Some(remote) if reason.is_busy() => Self::Busy { remote },
            Some(remote) if reason == CloseReason::Unreachable => Self::NobodyListens { remote },
            _ => Self::Closed(reason),
        }
    }

    /// What became of all addresses of a host: where it has one alone, in that one's words.
    pub(crate) fn all(host: &str, mut tried: Vec<(SocketAddr, Self)>) -> Self {
        match tried.len() {
            1 => tried.remove(0).1,
            _ => Self::NoneAnswers { host: host.to_owned(), tried },
        }
    }

    /// Whether a listener was reached that serves as many callers as it takes: it may be tried again later.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Busy { .. } => true,
            Self::Closed(reason) => reason.is_busy(),
            Self::NoneAnswers { tried, .. } => tried.iter().any(|(_, error)| error.is_busy()),
            _ => false,
        }
    }

    /// Whose fault it is.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::Uri(_) | Self::Engine(EngineError::Ring(_)) | Self::Closed(CloseReason::Local) => Culprit::Caller,
            Self::UnknownHost { .. }
            | Self::Engine(_)
            | Self::NoDaemon(_)
            | Self::Daemon(_)
            | Self::Remote(_)
            | Self::Closed(CloseReason::Abandoned) => Culprit::Environment,
            Self::NoneAnswers { tried, .. } if tried.iter().all(|(_, error)| error.culprit() != Culprit::Peer) => {
                Culprit::Environment
            }
            Self::NoAnswer { .. }
            | Self::NoneAnswers { .. }
            | Self::NobodyListens { .. }
            | Self::Busy { .. }
            | Self::Closed(_) => Culprit::Peer,
        }
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

/// Why an ADU was not taken.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The packet ring is full: wait for room, or drop something of what is queued.
    #[error("the packet ring is full: wait until something has left, or give something up")]
    Full,
    /// It does not fit into one packet.
    #[error("{len} bytes do not fit into a packet: {max} is the most")]
    TooLarge {
        /// What was given.
        len: usize,
        /// What fits.
        max: usize,
    },
    /// The connection is over.
    #[error("the connection has ended: {0}")]
    Closed(CloseReason),
}
