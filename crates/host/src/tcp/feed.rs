//! Sending side of a connection: a send buffer or a packet ring.

use crate::application::Sink;
use crate::ring::Stream;
use crate::socket::Socket;

/// Sending side of a connection.
pub enum Feed {
    /// Send buffer of a socket.
    Socket(Socket),
    /// Packet ring.
    Ring(Stream),
}

impl Feed {
    /// Returns a side that sends nothing.
    pub fn none() -> Self {
        Self::Socket(Socket::new(Sink))
    }
}

impl From<Socket> for Feed {
    fn from(socket: Socket) -> Self {
        Self::Socket(socket)
    }
}

impl From<Stream> for Feed {
    fn from(stream: Stream) -> Self {
        Self::Ring(stream)
    }
}
