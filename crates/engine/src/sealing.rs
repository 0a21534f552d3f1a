//! Protection of a stream's packets.

use timeous_seal::{CallerCredential, ListenerCredential};

/// Protection of a stream's packets: chosen by each end, never negotiated.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Sealing {
    /// None, between processes of one host: peers at other than loopback addresses are refused.
    #[default]
    Local,
    /// None, with any peer: whoever sees the packets can read them, and forge others.
    Off,
    /// Encrypted and authenticated, for a call.
    Caller(CallerCredential),
    /// Encrypted and authenticated, for a listener.
    Listener(ListenerCredential),
}

impl Sealing {
    /// Returns whether packets are encrypted.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        matches!(self, Self::Caller(_) | Self::Listener(_))
    }

    /// Returns the credential of a call.
    pub(crate) fn of_caller(&self) -> Option<&CallerCredential> {
        if let Self::Caller(credential) = self { Some(credential) } else { None }
    }

    /// Returns the credential of a listener.
    pub(crate) fn of_listener(&self) -> Option<&ListenerCredential> {
        if let Self::Listener(credential) = self { Some(credential) } else { None }
    }
}
