//! A peer that is called: again and again if it does not answer, or answers no more, unless the URI says otherwise.

use timeous::core::Instant;
use timeous::{DialEvent, Dialer, Error, Receiver, Sender, Uri};

use crate::failure::Failure;
use crate::notice::Limited;

/// The calls to one peer.
pub(crate) struct Calling {
    dialer: Dialer,
    again: bool,
    was_connected: bool,
    failed: Limited,
}

impl Calling {
    /// Begins to call.
    pub(crate) fn begin(uri: &Uri) -> Result<Self, Failure> {
        let dialer = Dialer::new(uri.clone())?;
        Ok(Self { dialer, again: uri.options.reconnects(), was_connected: false, failed: Limited::default() })
    }

    /// The connection, when there is one. A call that fails is told of, and made again.
    pub(crate) fn poll(&mut self) -> Result<Option<(Sender, Receiver)>, Failure> {
        match self.dialer.poll() {
            Some(DialEvent::Connected(sender, receiver)) => {
                self.was_connected = true;
                Ok(Some((sender, receiver)))
            }
            // A name that was never known is misspelt.
            Some(DialEvent::Failed { error: error @ Error::UnknownHost { .. }, .. }) if !self.was_connected => {
                Err(error.into())
            }
            Some(DialEvent::Failed { error, .. }) => {
                self.failed.tell(&format!("{error}; trying again"));
                Ok(None)
            }
            Some(DialEvent::GivenUp { error }) => Err(error.into()),
            None => Ok(None),
        }
    }

    /// Waits for news of it.
    pub(crate) fn wait(&mut self, deadline: Instant) {
        self.dialer.wait(Some(deadline));
    }

    /// The connection has ended: whether the peer is called again.
    pub(crate) fn again(&mut self) -> bool {
        if self.again {
            self.dialer.redial();
        }
        self.again
    }
}
