//! A pending TCP connection attempt, for a stream that another transport may still carry.

use std::io;
use std::net::SocketAddr;

use super::socket::Socket;

/// A connection attempt.
#[derive(Debug)]
pub(crate) struct Call(Socket);

impl Call {
    /// Starts to connect.
    pub(crate) fn start(remote: SocketAddr) -> io::Result<Self> {
        Socket::call(remote).map(Self)
    }

    /// Returns whether the attempt was answered.
    pub(crate) fn is_answered(&self) -> io::Result<bool> {
        self.0.take_error()?;
        Ok(self.0.peer().is_ok())
    }

    pub(super) fn into_socket(self) -> Socket {
        self.0
    }
}
