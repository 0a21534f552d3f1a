//! A client's identifier of a flow, and the events of a client.

use std::os::fd::OwnedFd;

use timeous_core::PathState;

use crate::error::Lost;
use crate::handle::Handle;
use crate::slot::Refusal;

/// A flow of a [`Client`](crate::Client). After a reconnection it is invalid, and never refers to another flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(u64);

/// Connection numbers before they wrap. After that an old flow is valid again only if its slot and generation match.
const CONNECTIONS: u32 = 1 << 12;
const SLOT_BITS: u32 = 20;

impl Flow {
    /// Returns the flow as a number, for other languages.
    #[must_use]
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Creates a flow from a number. An invalid number is refused where it is used.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn new(connection: u32, handle: Handle) -> Self {
        let above = u64::from(connection % CONNECTIONS) << SLOT_BITS | u64::from(handle.slot);
        Self(above << 32 | u64::from(handle.generation))
    }

    /// Returns the daemon's handle of it, if it belongs to this connection.
    pub(crate) fn handle(self, connection: u32) -> Option<Handle> {
        let above = (self.0 >> 32) as u32;
        let slot = above & ((1 << SLOT_BITS) - 1);
        (above >> SLOT_BITS == connection % CONNECTIONS).then_some(Handle { slot, generation: self.0 as u32 })
    }
}

/// An event of a client.
#[derive(Debug)]
pub enum Event {
    /// The flow may send one packet (`cmapp_send`), and reports it by [`notify`](crate::Client::notify).
    Granted(Flow),
    /// The flow's rate has crossed a threshold (`cmapp_update`).
    Changed(Flow, PathState),
    /// A submission was refused, and has had no effect.
    Refused {
        /// The flow.
        flow: Flow,
        /// Reason.
        why: Refusal,
        /// Value of the submission, such as bytes.
        value: u64,
    },
    /// An incoming stream.
    Incoming {
        /// The listener.
        listener: u32,
        /// The stream's packet ring.
        ring: OwnedFd,
        /// The stream's socket.
        socket: OwnedFd,
    },
    /// The queue to the daemon has room again, after [`ClientError::Full`](crate::ClientError::Full).
    Room,
    /// The daemon is lost, and with it all flows, listeners and streams. The client tries to reconnect.
    Disconnected(Lost),
    /// Reconnected: flows can be opened again.
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
