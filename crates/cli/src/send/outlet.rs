//! Source of receivers for `timeous send`: an outgoing call with redials, or a listener for any number of receivers.

use timeous::core::Duration;
use timeous::{Intent, Listener, Receiver, Role, Sender, Uri, clock};

use crate::caller::Caller;
use crate::failure::Failure;
use crate::notice::tell;

/// Source of receivers.
pub(super) enum Outlet {
    /// Calls one receiver.
    Call(Caller),
    /// Accepts receivers, once or repeatedly.
    Listen { listener: Box<Listener>, again: bool },
}

impl Outlet {
    /// Calls or listens, by the role in the URI.
    pub(super) fn open(uri: &Uri) -> Result<Self, Failure> {
        match &uri.role {
            Role::Caller { .. } => Ok(Self::Call(Caller::begin(uri, Intent::Publish)?)),
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

    /// Returns a receiver that has connected.
    pub(super) fn poll(&mut self) -> Result<Option<(Sender, Receiver)>, Failure> {
        match self {
            Self::Call(calling) => calling.poll(),
            Self::Listen { listener, .. } => Ok(listener.poll_accept()?.map(|incoming| incoming.accept())),
        }
    }

    /// Handles the loss of a receiver; returns whether one may still connect.
    pub(super) fn gone(&mut self) -> bool {
        match self {
            Self::Call(calling) => calling.again(),
            Self::Listen { again, .. } => *again,
        }
    }

    /// Whether it accepts several receivers at once.
    pub(super) fn is_listener(&self) -> bool {
        matches!(self, Self::Listen { .. })
    }

    /// Closes a connection that was made before there was anything to send.
    pub(super) fn close(mut self) {
        while let Ok(Some((sender, _receiver))) = self.poll() {
            // The peer hears of it, or is gone.
            let _ = sender.finish();
        }
    }

    /// Waits for a connection.
    pub(super) fn wait(&mut self, limit: Duration) {
        match self {
            Self::Call(calling) => calling.wait(clock::now() + limit),
            Self::Listen { listener, .. } => drop(listener.waker().wait(Some(limit))),
        }
    }
}
