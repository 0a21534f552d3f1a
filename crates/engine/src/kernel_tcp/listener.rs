//! A TCP port on which callers are waited for.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use super::socket::Socket;
use crate::command::{ListenerId, PortLife};
use crate::error::EngineError;
use crate::listening::Listening;

/// As many callers are let in in one turn.
const TURN: u32 = 16;

pub(super) struct Listener {
    socket: TcpListener,
    pub(super) listening: Listening,
    /// The UDP port beside it, whose streams may come back here.
    pub(super) beside: Option<u64>,
    /// Whether new streams are wanted, too.
    pub(super) wants_new: bool,
}

impl Listener {
    pub(super) fn new(socket: TcpListener, listening: Listening, beside: Option<u64>) -> Self {
        Self { socket, listening, beside, wants_new: true }
    }

    pub(super) fn id(&self) -> ListenerId {
        self.listening.id
    }

    /// Tells whether it is there.
    pub(super) fn life(&self) -> PortLife {
        PortLife::of(&self.listening.life)
    }

    pub(super) fn local_addr(&self) -> Result<SocketAddr, EngineError> {
        Ok(self.socket.local_addr()?)
    }

    /// Who has called.
    pub(super) fn accept(&self) -> Vec<Socket> {
        let mut callers = Vec::new();
        for _ in 0..TURN {
            match self.socket.accept().and_then(|(stream, _)| Socket::accepted(stream)) {
                Ok(socket) => callers.push(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // A caller that has left again, or no descriptor: the next turn tries again.
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
