//! A client's name for a flow, and what it is told.

use std::os::fd::OwnedFd;

use timeous_core::PathState;

use crate::error::Lost;
use crate::handle::Handle;
use crate::slot::Refusal;

/// A flow of a [`Client`](crate::Client). One from before a reconnection names nothing any more, and no other flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(u64);

/// Connections that are told apart. A number that comes round again names a flow only if slot and generation agree.
const CONNECTIONS: u32 = 1 << 12;
const SLOT_BITS: u32 = 20;

impl Flow {
    /// As a number, for other languages.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// From a number. One that never was a flow is refused where it is used.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn new(connection: u32, handle: Handle) -> Self {
        let above = u64::from(connection % CONNECTIONS) << SLOT_BITS | u64::from(handle.slot);
        Self(above << 32 | u64::from(handle.generation))
    }

    /// The daemon's name for it, if it is of this connection.
    pub(crate) fn handle(self, connection: u32) -> Option<Handle> {
        let above = (self.0 >> 32) as u32;
        let slot = above & ((1 << SLOT_BITS) - 1);
        (above >> SLOT_BITS == connection % CONNECTIONS).then_some(Handle { slot, generation: self.0 as u32 })
    }
}

/// What a client is told.
#[derive(Debug)]
pub enum Event {
    /// The flow may send one packet (`cmapp_send`), and tells what it sent by [`notify`](crate::Client::notify).
    Granted(Flow),
    /// The flow's rate has crossed a threshold (`cmapp_update`).
    Changed(Flow, PathState),
    /// Something that was submitted was refused, and has changed nothing.
    Refused {
        /// The flow.
        flow: Flow,
        /// Why.
        why: Refusal,
        /// What it was about.
        value: u64,
    },
    /// A stream was called in.
    Incoming {
        /// The listener.
        listener: u32,
        /// The stream's packet ring.
        ring: OwnedFd,
        /// The stream's socket.
        socket: OwnedFd,
    },
    /// There is room in the queue to the daemon again, after [`ClientError::Full`](crate::ClientError::Full).
    Room,
    /// The daemon is lost, and with it all flows, listeners and streams. The client tries to reach it again.
    Disconnected(Lost),
    /// The daemon is back: flows can be opened again.
    Reconnected,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_of_another_connection_has_no_handle() {
        let handle = Handle { slot: (1 << SLOT_BITS) - 1, generation: u32::MAX };
        let flow = Flow::new(3, handle);
        assert_eq!(Flow::from_u64(flow.as_u64()).handle(3), Some(handle));
        assert_eq!(flow.handle(4), None);
    }
}
