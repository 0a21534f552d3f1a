//! All TCP connections and listeners of an engine.

use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener};

use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags};
use timeous_cm::Manager;
use timeous_core::{IdMap, Instant, Schedule};

use super::call::Call;
use super::connection::Connection;
use super::listener::Listener;
use super::readiness::Readiness;
use super::tap;
use super::unidentified::{Kind, UnidentifiedConnection};
use crate::carrier::{TcpConfig, Unordered};
use crate::command::{ListenReply, ListenerId, PortLife};
use crate::error::EngineError;
use crate::identity::{Hello, Identity};
use crate::listening::Listening;
use crate::order::{Order, StreamId};
use crate::session::Session;
use crate::streams::Streams;

/// An incoming connection that continues a stream of this host.
pub(crate) struct Returned {
    pub(crate) identity: Identity,
    newcomer: UnidentifiedConnection,
}

/// The connections and listeners of an engine. A round looks only at connections that something happened to.
#[derive(Default)]
pub(crate) struct KernelTcp {
    connections: IdMap<StreamId, Watched>,
    /// Connections to look at in this round.
    touched: BTreeSet<StreamId>,
    /// Connections to look at in every round: others share their window, or the kernel cannot report them.
    always: BTreeSet<StreamId>,
    timers: Schedule<StreamId>,
    readiness: Readiness,
    listeners: Vec<Listener>,
    newcomers: Vec<UnidentifiedConnection>,
}

/// A connection, and what its descriptors are watched for.
struct Watched {
    connection: Connection,
    interest: EventFlags,
    has_tap: bool,
}

impl KernelTcp {
    /// Connects to a listener; the result is reported to the session.
    pub(crate) fn connect(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        session: Session,
        config: &TcpConfig,
    ) -> Result<(), EngineError> {
        has_its_tap(config)?;
        self.add(Connection::call(now, remote, session, config.clone())?);
        Ok(())
    }

    /// Continues a stream over a TCP connection that was answered.
    pub(crate) fn go_on(&mut self, now: Instant, call: Call, hello: Hello, session: Session, config: &TcpConfig) {
        let (socket, config) = (call.into_socket(), config.clone());
        self.add(Connection::adopted(now, socket, session, config, (Some(hello), &[])));
    }

    /// Returns the next incoming connection that continues a stream.
    pub(crate) fn poll_returned(&mut self, now: Instant, streams: &mut Streams) -> Option<Returned> {
        let mut at = 0;
        while at < self.newcomers.len() {
            match self.newcomers[at].look(now) {
                Kind::Unknown => at += 1,
                Kind::Gone => drop(self.newcomers.swap_remove(at)),
                Kind::New => {
                    let newcomer = self.newcomers.swap_remove(at);
                    self.take_in(now, newcomer, streams);
                }
                Kind::Returned(identity) => {
                    return Some(Returned { identity, newcomer: self.newcomers.swap_remove(at) });
                }
            }
        }
        None
    }

    /// Continues the stream `session` over the connection; `None`: the stream is gone, and the connection is dropped.
    pub(crate) fn welcome(&mut self, now: Instant, returned: Returned, session: Option<Session>) {
        let UnidentifiedConnection { socket, listening, bytes, .. } = returned.newcomer;
        if let Some(session) = session {
            let config = listening.config.tcp.clone();
            self.add(Connection::adopted(now, socket, session, config, (None, &bytes)));
        }
    }

    /// Creates a new stream for an incoming connection, if its listener still accepts new ones.
    fn take_in(&mut self, now: Instant, newcomer: UnidentifiedConnection, streams: &mut Streams) {
        let UnidentifiedConnection { socket, listening, bytes, .. } = newcomer;
        let is_wanted = |listener: &Listener| listener.id() == listening.id && listener.wants_new;
        if !self.listeners.iter().any(is_wanted) || listening.incoming.room() == 0 {
            return socket.reset();
        }
        match streams.make(listening.user, &listening.config, PortLife::default()) {
            Ok((session, stream)) => {
                let config = listening.config.tcp.clone();
                self.add(Connection::adopted(now, socket, session, config, (None, &bytes)));
                // If there is no place left, the stream is dropped, which ends the connection.
                drop(listening.incoming.push(stream));
            }
            Err(error) => {
                tracing::warn!(%error, "no stream for a caller");
                socket.reset();
            }
        }
    }

    /// Removes listeners that accept no new streams and whose UDP port is gone, with all streams that might move here.
    pub(crate) fn retain_listeners(&mut self, there: impl Fn(u64) -> bool) {
        self.listeners.retain(|listener| listener.wants_new || listener.beside.is_some_and(&there));
    }

    /// Listens on a socket, for new streams and for those that move here from the UDP port `beside`.
    pub(crate) fn listen(&mut self, socket: TcpListener, listening: Listening, beside: Option<u64>) -> ListenReply {
        has_its_tap(&listening.config.tcp)?;
        socket.set_nonblocking(true)?;
        let listener = Listener::new(socket, listening, beside);
        let reply = (listener.id(), listener.local_addr()?, listener.life());
        self.listeners.push(listener);
        Ok(reply)
    }

    pub(crate) fn stop_listening(&mut self, id: ListenerId) {
        for listener in self.listeners.iter_mut().filter(|listener| listener.id() == id) {
            listener.wants_new = false;
            listener.listening.incoming.refuse_all();
        }
        self.retain_listeners(|_| true);
    }

    fn add(&mut self, connection: Connection) {
        let (id, interest) = (connection.id(), connection.interest());
        if let Err(error) = self.readiness.watch(connection.socket(), id, interest) {
            tracing::warn!(%error, "a TCP connection is looked at by the clock");
            self.always.insert(id);
        }
        self.connections.insert(id, Watched { connection, interest, has_tap: false });
        self.touched.insert(id);
    }

    /// Carries out a stream's request.
    pub(crate) fn obey(&mut self, now: Instant, id: StreamId, order: Order) {
        let Some(Watched { connection, .. }) = self.connections.get_mut(id) else { return };
        self.touched.insert(id);
        match order {
            Order::Finish => connection.finish(),
            Order::Abandon => connection.abandon(now),
            Order::Refuse => connection.refuse(now),
            Order::Rate(rate) => connection.set_rate(rate),
            // The round looks at it.
            Order::Notify | Order::Ignore | Order::Tell => {}
        }
    }

    /// Closes all connections.
    pub(crate) fn close_all(&mut self, now: Instant) {
        for id in self.connections.ids() {
            self.obey(now, id, Order::Abandon);
        }
    }

    pub(crate) fn receive(&mut self, now: Instant, streams: &mut Streams) {
        let mut callers = Vec::new();
        for listener in &self.listeners {
            let listening = &listener.listening;
            callers.extend(listener.accept().into_iter().map(|socket| (socket, listening.clone(), listener.beside)));
        }
        for (socket, listening, beside) in callers {
            let newcomer = UnidentifiedConnection::new(now, socket, listening);
            match beside {
                Some(_) => self.newcomers.push(newcomer),
                None => self.take_in(now, newcomer, streams),
            }
        }
        let touched = &mut self.touched;
        self.readiness.poll(|id| {
            touched.insert(id);
        });
        touched.extend(&self.always);
        while let Some(id) = self.timers.next_due(now) {
            touched.insert(id);
        }
        self.each_touched(|connection| {
            connection.receive(now);
            connection.handle_timeout(now);
        });
    }

    fn each_touched(&mut self, mut look: impl FnMut(&mut Connection)) {
        for &id in &self.touched {
            if let Some(Watched { connection, .. }) = self.connections.get_mut(id) {
                look(connection);
            }
        }
    }

    /// Returns whether there was progress.
    pub(crate) fn drain(&mut self, now: Instant, manager: &mut Manager) -> bool {
        let mut progress = false;
        self.each_touched(|connection| progress |= connection.drain(now, manager));
        progress
    }

    /// Ends the round of the connections that it looked at.
    pub(crate) fn wake_applications(&mut self, now: Instant, manager: &mut Manager) {
        for id in std::mem::take(&mut self.touched) {
            let Some(watched) = self.connections.get_mut(id) else { continue };
            let connection = &mut watched.connection;
            connection.wake_application(now);
            if connection.is_over() {
                if let Some(flow) = connection.flow() {
                    manager.close(now, flow).expect("nobody else closes it");
                }
                self.connections.remove(id);
                self.always.remove(&id);
                self.timers.forget(id);
                continue;
            }
            if connection.flow().is_some() {
                self.always.insert(id);
            }
            self.timers.set_timeout(id, connection.poll_timeout(now));
            if let Err(error) = watched.update(id, &mut self.readiness) {
                tracing::warn!(%error, "a TCP connection is looked at by the clock");
                self.always.insert(id);
            }
        }
    }

    /// Returns the descriptors and events to poll for.
    pub(crate) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listeners = self.listeners.iter().map(|listener| PollFd::new(listener, PollFlags::IN));
        let newcomers = self.newcomers.iter().map(|newcomer| PollFd::new(&newcomer.socket, PollFlags::IN));
        let connections = self.readiness.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        listeners.chain(newcomers).chain(connections)
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let newcomers = self.newcomers.iter().map(UnidentifiedConnection::poll_timeout);
        newcomers.chain(self.timers.first_timeout()).min()
    }
}

impl Watched {
    /// Watches its descriptors for what it waits for now.
    fn update(&mut self, id: StreamId, readiness: &mut Readiness) -> io::Result<()> {
        let interest = self.connection.interest();
        if interest != self.interest {
            readiness.change(self.connection.socket(), id, interest)?;
            self.interest = interest;
        }
        if let Some(tap) = self.connection.tap().filter(|_| !self.has_tap) {
            readiness.watch(tap, id, EventFlags::IN)?;
            self.has_tap = true;
        }
        Ok(())
    }
}

/// Checks that a packet tap is available, if the stream requires one.
fn has_its_tap(config: &TcpConfig) -> Result<(), EngineError> {
    match config.unordered {
        Unordered::Require => tap::may_be_had().map_err(EngineError::NoPacketTap),
        Unordered::Off | Unordered::Auto => Ok(()),
    }
}
