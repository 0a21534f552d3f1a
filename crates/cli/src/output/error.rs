//! Reasons for which a frame is not written.

use crate::failure::Failure;

/// Why a frame was not written.
pub(super) enum WriteError {
    /// The frame cannot be expressed; others can.
    Frame(String),
    /// The sink takes nothing any more.
    Gone(Failure),
}

impl From<Failure> for WriteError {
    fn from(failure: Failure) -> Self {
        Self::Gone(failure)
    }
}
