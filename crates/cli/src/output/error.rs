//! Errors of a sink: reasons for which a frame was not written.

use crate::failure::Failure;

/// Reason for which a frame was not written.
pub(super) enum WriteError {
    /// The format cannot express this frame; others may follow.
    Frame(String),
    /// The sink's file has no place for this frame's stream, which was told; the others are written.
    LeftOut,
    /// The sink does not take this stream; another may follow.
    Stream(Failure),
    /// The sink is gone.
    Gone(Failure),
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Peer(_) => Self::Stream(failure),
            _ => Self::Gone(failure),
        }
    }
}
