//! Purpose of a stream: what a listener is asked for, and which callers a listener takes.

use timeous_seal::Intent;

/// Directions of data in which the application uses a stream.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    Send,
    Receive,
    Both,
}

impl Purpose {
    /// Intent of a call.
    pub(super) fn intent(self) -> Intent {
        match self {
            Self::Send | Self::Both => Intent::Publish,
            Self::Receive => Intent::Play,
        }
    }

    /// Intent of the callers whom an access list admits; `None`: any.
    pub(super) fn callers(self) -> Option<Intent> {
        match self {
            Self::Send => Some(Intent::Play),
            Self::Receive => Some(Intent::Publish),
            Self::Both => None,
        }
    }
}
