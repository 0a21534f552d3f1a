//! Errors between an application and its Congestion Manager, by culprit.

use std::io;

use timeous_cm::CmError;
use timeous_engine::EngineError;
use timeous_ipc::{ClientError, ConnectError, Refusal};

use super::feedback::FeedbackError;
use crate::error::{Culprit, culprit_of_daemon, culprit_of_engine};

/// Error of a call to the Congestion Manager. A failed call changes nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The manager refused: the flow is not open, holds no grant, or its feedback is implausible.
    #[error(transparent)]
    Refused(#[from] CmError),
    /// The daemon's manager refused, for the same reasons.
    #[error(transparent)]
    RefusedByDaemon(#[from] Refusal),
    /// The process's streams run on several workers, each with a Congestion Manager.
    #[error("this process has {0} workers, each with a Congestion Manager: use one worker, or the daemon's manager")]
    SeveralWorkers(usize),
    /// The daemon is not running, or refused the connection.
    #[error(transparent)]
    NoDaemon(#[from] ConnectError),
    /// The daemon is gone, and with it all flows.
    #[error("the daemon is gone: wait for Event::Reconnected and open the flows again")]
    Disconnected,
    /// The daemon failed to do what was asked.
    #[error(transparent)]
    Daemon(ClientError),
    /// An acknowledgement was rejected.
    #[error(transparent)]
    Feedback(#[from] FeedbackError),
    /// The system refused a thread.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The system refused a descriptor or a socket.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Party at fault.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::Refused(_) | Self::RefusedByDaemon(_) | Self::SeveralWorkers(_) => Culprit::Caller,
            Self::Daemon(error) => culprit_of_daemon(error),
            Self::Engine(error) => culprit_of_engine(error),
            Self::Feedback(_) => Culprit::Peer,
            Self::NoDaemon(_) | Self::Disconnected | Self::Io(_) => Culprit::Environment,
        }
    }
}

impl From<ClientError> for Error {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Disconnected | ClientError::Gone => Self::Disconnected,
            other => Self::Daemon(other),
        }
    }
}
