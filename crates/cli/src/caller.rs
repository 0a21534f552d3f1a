//! Outgoing connection: calls the peer, and redials after failures and disconnects unless `reconnect=off`.

use timeous::core::Instant;
use timeous::{DialEvent, Dialer, Error, Receiver, Sender, Uri};

use crate::failure::Failure;
use crate::notice::RateLimitedMessages;

/// Calls to one peer.
pub(crate) struct Caller {
    dialer: Dialer,
    again: bool,
    was_connected: bool,
    failed: RateLimitedMessages,
}

impl Caller {
    /// Starts calling.
    pub(crate) fn begin(uri: &Uri) -> Result<Self, Failure> {
        let dialer = Dialer::new(uri.clone())?;
        Ok(Self {
            dialer,
            again: uri.options.reconnects(),
            was_connected: false,
            failed: RateLimitedMessages::default(),
        })
    }

    /// Returns the connection once there is one. A failed call is reported and repeated.
    pub(crate) fn poll(&mut self) -> Result<Option<(Sender, Receiver)>, Failure> {
        match self.dialer.poll() {
            Some(DialEvent::Connected(sender, receiver)) => {
                self.was_connected = true;
                Ok(Some((sender, receiver)))
            }
            // A host name that never resolved is taken for a misspelling.
            Some(DialEvent::Failed { error: error @ Error::UnknownHost { .. }, .. }) if !self.was_connected => {
                Err(error.into())
            }
            Some(DialEvent::Failed { error, .. }) => {
                self.failed.tell(&format!("{error}; trying again"));
                Ok(None)
            }
            Some(DialEvent::GivenUp { error }) => Err(error.into()),
            Some(_) | None => Ok(None),
        }
    }

    /// Waits for progress of the call.
    pub(crate) fn wait(&mut self, deadline: Instant) {
        self.dialer.wait(Some(deadline));
    }

    /// Handles the end of the connection; returns whether the peer is called again.
    pub(crate) fn again(&mut self) -> bool {
        if self.again {
            self.dialer.redial();
        }
        self.again
    }
}
