//! Outgoing connection: calls the peer, and redials after failures and disconnects unless `reconnect=off`.

use timeous::core::Instant;
use timeous::{DialEvent, Dialer, Error, Intent, Receiver, SealError, Sender, Uri};

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
    /// Starts calling, to send or to receive.
    pub(crate) fn begin(uri: &Uri, intent: Intent) -> Result<Self, Failure> {
        let dialer = Dialer::with_intent(uri.clone(), intent)?;
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
            Some(DialEvent::Failed { error, .. }) if !self.was_connected && is_mistake(&error) => Err(error.into()),
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

/// Whether a first call that failed so is taken for the user's mistake: a host name that does not resolve, or a peer that
/// is not the one expected.
fn is_mistake(error: &Error) -> bool {
    match error {
        Error::UnknownHost { .. } => true,
        Error::Sealing(error) => *error != SealError::NoAnswer,
        _ => false,
    }
}
