//! A listening TCP port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use super::socket::Socket;
use crate::command::{ListenerId, PortLife};
use crate::error::EngineError;
use crate::listening::Listening;

/// Maximum number of connections accepted per turn. Chosen by us: a higher value delays the streams while many callers
/// come.
const TURN: u32 = 16;

pub(super) struct Listener {
    socket: TcpListener,
    pub(super) listening: Listening,
    /// UDP port with the same address, whose streams may move here.
    pub(super) beside: Option<u64>,
    /// Whether new streams are accepted, too.
    pub(super) wants_new: bool,
}

impl Listener {
    pub(super) fn new(socket: TcpListener, listening: Listening, beside: Option<u64>) -> Self {
        Self { socket, listening, beside, wants_new: true }
    }

    pub(super) fn id(&self) -> ListenerId {
        self.listening.id
    }

    /// Returns a handle that tells whether the listener exists.
    pub(super) fn life(&self) -> PortLife {
        PortLife::of(&self.listening.life)
    }

    pub(super) fn local_addr(&self) -> Result<SocketAddr, EngineError> {
        Ok(self.socket.local_addr()?)
    }

    /// Accepts waiting connections.
    pub(super) fn accept(&self) -> Vec<Socket> {
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

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
