//! A listening TCP port.

use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd};

use timeous_seal::ListenerCredential;

use crate::socket::Socket;

/// Maximum number of connections accepted per turn. Chosen by us: a higher value delays the streams while many callers
/// come.
const TURN: u32 = 16;

/// A listening port, with its owner's data.
pub(crate) struct Listener<L> {
    pub(crate) socket: TcpListener,
    pub(crate) listening: L,
    /// UDP port with the same address, whose streams may move here.
    pub(crate) beside: Option<u64>,
    /// Credential for its callers; `None`: streams are plain.
    pub(crate) credential: Option<ListenerCredential>,
    /// Whether new streams are accepted, too.
    pub(crate) wants_new: bool,
}

impl<L> Listener<L> {
    /// Accepts waiting connections.
    pub(crate) fn accept(&self) -> Vec<Socket> {
        let mut callers = Vec::new();
        for _ in 0..TURN {
            match self.socket.accept().and_then(|(stream, _)| Socket::accepted(stream)) {
                Ok(socket) => callers.push(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The connection was aborted, or no descriptor is free: the next turn tries again.
                Err(error) => {
                    tracing::debug!(%error, "accepting");
                    break;
                }
            }
        }
        callers
    }
}

impl<L> AsFd for Listener<L> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
