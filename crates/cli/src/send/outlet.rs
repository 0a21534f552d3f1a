//! How a stream that is sent comes by its receivers: it calls one, again and again, or waits for any number of them.

use timeous::core::Duration;
use timeous::{Listener, Receiver, Role, Sender, Uri, clock};

use crate::calling::Calling;
use crate::failure::Failure;
use crate::notice::tell;

/// Where receivers come from.
pub(super) enum Outlet {
    /// One is called.
    Call(Calling),
    /// They call, once or again and again.
    Listen { listener: Box<Listener>, again: bool },
}

impl Outlet {
    /// Calls, or listens, as the URI says.
    pub(super) fn open(uri: &Uri) -> Result<Self, Failure> {
        match &uri.role {
            Role::Caller { .. } => Ok(Self::Call(Calling::begin(uri)?)),
            Role::Listener { .. } => {
                let listener = Listener::open(uri)?;
                let again = uri.options.reconnects();
                if !again {
                    listener.set_room(Some(1));
                }
                tell(format_args!("waiting for receivers at {}", listener.local_addr()));
                Ok(Self::Listen { listener: Box::new(listener), again })
            }
        }
    }

    /// A receiver that has connected.
    pub(super) fn poll(&mut self) -> Result<Option<(Sender, Receiver)>, Failure> {
        match self {
            Self::Call(calling) => calling.poll(),
            Self::Listen { listener, .. } => Ok(listener.poll_accept()?.map(|incoming| incoming.accept())),
        }
    }

    /// A receiver is gone: whether another one, or the same, may come.
    pub(super) fn gone(&mut self) -> bool {
        match self {
            Self::Call(calling) => calling.again(),
            Self::Listen { again, .. } => *again,
        }
    }

    /// Whether it has several receivers at once.
    pub(super) fn is_listener(&self) -> bool {
        matches!(self, Self::Listen { .. })
    }

    /// Waits for news of it.
    pub(super) fn wait(&mut self, limit: Duration) {
        match self {
            Self::Call(calling) => calling.wait(clock::now() + limit),
            Self::Listen { listener, .. } => drop(listener.waker().wait(Some(limit))),
        }
    }
}
