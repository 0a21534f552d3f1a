//! Connection IDs, outgoing packets, and the send queues that they are pulled from.

use std::net::SocketAddr;

use timeous_core::{AduSource, Transmit};

/// ID of a connection in its endpoint; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// The send queues of an endpoint's connections.
pub trait Sources {
    /// Returns the send queue of one connection; asked for established connections only.
    /// [`NoAdus`](timeous_core::NoAdus) serves for one that never sends.
    fn source(&mut self, connection: ConnectionId) -> &mut dyn AduSource;
}

/// A packet that an endpoint sends. `A` is the protocol's local address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<A> {
    /// Destination address; its port is that of UDP or TCP, or else zero.
    pub to: SocketAddr,
    /// Source address, if the endpoint knows it.
    pub from: A,
    /// Connection of the packet; `None` for a reset to a packet of no connection.
    pub connection: Option<ConnectionId>,
    /// ECN mark, and the ADU that the packet carries.
    pub transmit: Transmit,
}
