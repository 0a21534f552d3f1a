//! Connection attempts without an answer yet, and what ICMP says about them.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use timeous_dccp::ConnectionId;

/// Connection attempts of a port.
#[derive(Default)]
pub(crate) struct Callers(BTreeMap<ConnectionId, Caller>);

struct Caller {
    /// Whether the stream may go on over TCP, so that a refusal is kept and does not end it.
    has_alternative: bool,
    /// Destination and quoted packet of the last ICMP message "port unreachable".
    refusal: Option<(SocketAddr, Vec<u8>)>,
}

impl Callers {
    pub(crate) fn insert(&mut self, connection: ConnectionId, has_alternative: bool) {
        self.0.insert(connection, Caller { has_alternative, refusal: None });
    }

    /// Removes an attempt that was answered, or ended; `true` if it was the last one.
    pub(crate) fn remove(&mut self, connection: ConnectionId) -> bool {
        self.0.remove(&connection).is_some() && self.0.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in a refusal; `true` if it ends the attempt.
    pub(crate) fn refuse(&mut self, connection: ConnectionId, remote: SocketAddr, quoted: &[u8]) -> bool {
        match self.0.get_mut(&connection) {
            Some(caller) if caller.has_alternative => {
                caller.refusal = Some((remote, quoted.to_vec()));
                false
            }
            caller => caller.is_some(),
        }
    }

    /// Returns whether the attempt was refused.
    pub(crate) fn is_refused(&self, connection: ConnectionId) -> bool {
        self.0.get(&connection).is_some_and(|caller| caller.refusal.is_some())
    }

    /// Takes the refusal: there is no alternative any more.
    pub(crate) fn give_in(&mut self, connection: ConnectionId) -> Option<(SocketAddr, Vec<u8>)> {
        let caller = self.0.get_mut(&connection)?;
        caller.has_alternative = false;
        caller.refusal.take()
    }
}
