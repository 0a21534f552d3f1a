//! Datagram that the program has handed over.

use std::net::SocketAddr;

/// Datagram of the program, with all that its call said.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// Destination.
    pub(crate) to: SocketAddr,
    /// Payload.
    pub(crate) payload: Box<[u8]>,
    /// Control messages, as the program gave them.
    pub(crate) control: Box<[u8]>,
    /// Flags of the call.
    pub(crate) flags: i32,
}
