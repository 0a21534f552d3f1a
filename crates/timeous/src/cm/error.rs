//! What can go wrong between an application and its Congestion Manager, by culprit.

use std::io;

use timeous_cm::CmError;
use timeous_engine::EngineError;
use timeous_ipc::{ClientError, ConnectError, Refusal};

use super::feedback::FeedbackError;
use crate::error::Culprit;

/// Why the Congestion Manager does not do what was asked. Nothing has changed by a call that ended in one.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The manager refused: the flow is not open, holds no grant, or its feedback cannot be true.
    #[error(transparent)]
    Refused(#[from] CmError),
    /// The daemon's manager refused, for the same reasons.
    #[error(transparent)]
    RefusedByDaemon(#[from] Refusal),
    /// No daemon could be reached, or it would have nothing of us.
    #[error(transparent)]
    NoDaemon(#[from] ConnectError),
    /// The daemon is gone, and all flows that were open with it.
    #[error("the daemon is gone: wait for Event::Reconnected and open the flows again")]
    Disconnected,
    /// The daemon did not do what was asked.
    #[error(transparent)]
    Daemon(ClientError),
    /// An acknowledgement is not believed.
    #[error(transparent)]
    Feedback(#[from] FeedbackError),
    /// The machine refused: no thread.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The machine refused: no descriptor, no socket.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Error {
    /// Whose fault it is.
    #[must_use]
    pub fn culprit(&self) -> Culprit {
        match self {
            Self::Refused(_) | Self::RefusedByDaemon(_) | Self::Daemon(ClientError::Argument(_)) => Culprit::Caller,
            Self::Feedback(_) => Culprit::Peer,
            _ => Culprit::Environment,
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
