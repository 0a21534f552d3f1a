//! A TCP port on which callers are waited for.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd};

use timeous_core::Instant;

use super::connection::Connection;
use super::socket::Socket;
use crate::command::{ListenerId, PortLife};
use crate::error::EngineError;
use crate::listening::Listening;
use crate::streams::Streams;

/// As many callers are let in in one turn.
const TURN: u32 = 16;

pub(super) struct Listener {
    socket: TcpListener,
    listening: Listening,
}

impl Listener {
    pub(super) fn new(socket: TcpListener, listening: Listening) -> Self {
        Self { socket, listening }
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

    /// Lets in who has called.
    pub(super) fn accept(&mut self, now: Instant, streams: &mut Streams, connections: &mut Vec<Connection>) {
        for _ in 0..TURN {
            let socket = match self.socket.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // A caller that has left again, or no descriptor: the next turn tries again.
                Err(error) => return tracing::debug!(%error, "accepting"),
            };
            let Listening { user, config, incoming, .. } = &self.listening;
            let made =
                streams.make(*user, config, PortLife::default()).and_then(|made| Ok((Socket::accepted(socket)?, made)));
            match made {
                Ok((socket, (session, stream))) => {
                    connections.push(Connection::accepted(now, socket, session, config.tcp.clone()));
                    incoming.push(stream);
                }
                Err(error) => tracing::warn!(%error, "no stream for a caller"),
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
