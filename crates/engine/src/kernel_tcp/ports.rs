//! All that an engine has of the kernel's TCP: who calls, who is waited for, who is connected.

use std::net::{SocketAddr, TcpListener};

use rustix::event::{PollFd, PollFlags};
use timeous_core::Instant;

use super::connection::Connection;
use super::listener::Listener;
use crate::carrier::TcpConfig;
use crate::command::{ListenReply, ListenerId};
use crate::error::EngineError;
use crate::listening::Listening;
use crate::order::StreamId;
use crate::session::Session;
use crate::streams::Streams;

/// The connections and listeners of an engine.
#[derive(Default)]
pub(crate) struct KernelTcp {
    connections: Vec<Connection>,
    listeners: Vec<Listener>,
    /// Whether some connection has data that may not leave yet.
    waits: bool,
}

impl KernelTcp {
    /// Calls; what comes of it the session is told.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        session: Session,
        config: &TcpConfig,
    ) -> Result<(), EngineError> {
        self.connections.push(Connection::call(now, remote, session, config.clone())?);
        Ok(())
    }

    /// Waits for callers at a socket that listens.
    pub(crate) fn listen(&mut self, socket: TcpListener, listening: Listening) -> ListenReply {
        socket.set_nonblocking(true)?;
        let listener = Listener::new(socket, listening);
        let reply = (listener.id(), listener.local_addr()?, listener.life());
        self.listeners.push(listener);
        Ok(reply)
    }

    pub(crate) fn stop_listening(&mut self, id: ListenerId) {
        self.listeners.retain(|listener| listener.id() != id);
    }

    fn connection(&mut self, id: StreamId) -> Option<&mut Connection> {
        self.connections.iter_mut().find(|connection| connection.id() == id)
    }

    /// `false` if it is none of these.
    pub(crate) fn finish(&mut self, id: StreamId) -> bool {
        self.connection(id).map(Connection::finish).is_some()
    }

    /// `false` if it is none of these.
    pub(crate) fn abandon(&mut self, now: Instant, id: StreamId) -> bool {
        self.connection(id).map(|connection| connection.abandon(now)).is_some()
    }

    /// Says goodbye to everybody.
    pub(crate) fn close_all(&mut self, now: Instant) {
        for connection in &mut self.connections {
            connection.abandon(now);
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, streams: &mut Streams) {
        for listener in &mut self.listeners {
            listener.accept(now, streams, &mut self.connections);
        }
        for connection in &mut self.connections {
            connection.receive(now);
            connection.handle_timeout(now);
        }
    }

    /// Whether anything came of it.
    pub(crate) fn drain(&mut self, now: Instant) -> bool {
        self.connections.iter_mut().fold(false, |progress, connection| connection.drain(now) | progress)
    }

    pub(crate) fn wake_applications(&mut self, now: Instant) {
        self.waits = self.connections.iter_mut().fold(false, |waits, one| one.wake_application(now) | waits);
        self.connections.retain(|connection| !connection.is_over());
    }

    /// What is waited for.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listeners = self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN));
        listeners.chain(self.connections.iter().filter_map(Connection::poll_fd))
    }

    pub(crate) fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        self.connections.iter().filter_map(|connection| connection.poll_timeout(now, self.waits)).min()
    }
}
