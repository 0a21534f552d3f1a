//! What a connection sends by: a socket's buffer or a packet ring.

use crate::application::Sink;
use crate::ring::Stream;
use crate::socket::Socket;

/// What a connection sends by.
pub enum Feed {
    /// A socket's send buffer.
    Socket(Socket),
    /// A packet ring.
    Ring(Stream),
}

impl Feed {
    /// Nothing is sent.
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
