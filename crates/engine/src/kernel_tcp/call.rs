//! A call that is on its way, for a stream that something else may carry.

use std::io;
use std::net::SocketAddr;

use super::socket::Socket;

/// A call.
#[derive(Debug)]
pub(crate) struct Call(Socket);

impl Call {
    /// Begins to call.
    pub(crate) fn start(remote: SocketAddr) -> io::Result<Self> {
        Socket::call(remote).map(Self)
    }

    /// Whether somebody has answered.
    pub(crate) fn is_answered(&self) -> io::Result<bool> {
        self.0.take_error()?;
        Ok(self.0.peer().is_ok())
    }

    pub(super) fn into_socket(self) -> Socket {
        self.0
    }
}
