//! A pending TCP connection attempt, for a stream that another transport may still carry.

use std::io;
use std::net::SocketAddr;

use crate::socket::Socket;

/// A connection attempt.
#[derive(Debug)]
pub struct Call(Socket);

impl Call {
    /// Starts to connect.
    ///
    /// # Errors
    /// The system's: no socket, no route.
    pub fn start(remote: SocketAddr) -> io::Result<Self> {
        Socket::call(remote).map(Self)
    }

    /// Returns whether the attempt was answered.
    ///
    /// # Errors
    /// The reason why the attempt has failed.
    pub fn is_answered(&self) -> io::Result<bool> {
        self.0.take_error()?;
        Ok(self.0.peer().is_ok())
    }

    pub(crate) fn into_socket(self) -> Socket {
        self.0
    }
}
