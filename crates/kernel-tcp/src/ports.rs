//! All TCP connections and listeners of an engine.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use rustix::event::epoll::EventFlags;
use rustix::event::{PollFd, PollFlags};
use timeous_cm::Manager;
use timeous_core::{IdMap, Instant, Schedule};
use timeous_seal::{CallerCredential, ListenerCredential};
use timeous_stream::{Order, StreamId};

use crate::call::Call;
use crate::config::{TcpConfig, TcpFraming};
use crate::connection::Connection;
use crate::identity::Hello;
use crate::incoming::Incoming;
use crate::listener::Listener;
use crate::readiness::Readiness;
use crate::route::Route;
use crate::session::TcpSession;
use crate::socket::Socket;

/// Maximum number of incoming handshakes in progress, and of callers that have sent nothing where data is awaited; beyond it
/// the oldest are dropped. Each is looked at in every round. Chosen by us: a higher value takes more time and memory under a
/// flood of calls, a lower one drops slow callers then.
const MAX_HANDSHAKES: usize = 256;

/// The connections and listeners of an engine's thread: connections with streams `S`, listeners with data `L` of their owner. A round looks
/// only at connections that something happened to.
pub struct KernelTcp<S, L> {
    clock: fn() -> Instant,
    connections: IdMap<StreamId, Watched<S>>,
    /// Connections to look at in this round.
    touched: BTreeSet<StreamId>,
    /// Connections to look at in every round: others share their window, or the kernel cannot report them.
    always: BTreeSet<StreamId>,
    timers: Schedule<StreamId>,
    readiness: Readiness,
    listeners: Vec<Listener<L>>,
    /// Accepted connections that have not told their stream.
    incoming: Vec<Incoming<L>>,
}

/// A connection, and what its descriptors are watched for.
struct Watched<S> {
    connection: Connection<S>,
    interest: EventFlags,
    has_tap: bool,
}

impl<S: TcpSession, L: Clone> KernelTcp<S, L> {
    /// Creates it without connections. `clock` tells the time when a round has taken long.
    pub fn new(clock: fn() -> Instant) -> Self {
        Self {
            clock,
            connections: IdMap::default(),
            touched: BTreeSet::new(),
            always: BTreeSet::new(),
            timers: Schedule::default(),
            readiness: Readiness::default(),
            listeners: Vec::new(),
            incoming: Vec::new(),
        }
    }

    /// Connects to a listener, and with a `credential` agrees with it on keys; the result is reported to the session.
    ///
    /// # Errors
    /// The system's: no socket, no route. `InvalidInput`: this framing cannot be encrypted.
    pub fn connect(
        &mut self,
        now: Instant,
        route: Route,
        session: S,
        config: &TcpConfig,
        credential: Option<&CallerCredential>,
    ) -> io::Result<()> {
        if credential.is_some() && config.framing != TcpFraming::Records {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let settings = (config.clone(), credential.cloned());
        self.add(Connection::call(now, self.clock, route, session, settings)?);
        Ok(())
    }

    /// Continues a stream over a TCP connection that was answered.
    pub fn go_on(&mut self, now: Instant, call: Call, hello: &Hello, session: S, config: &TcpConfig) {
        self.add(Connection::moved(now, self.clock, call, session, (config.clone(), hello)));
    }

    /// Accepts connections, and returns those that tell their stream by now, and whose caller is admitted: each is
    /// [adopted](Self::adopt) or [refused](Incoming::refuse). One that has to send something first is returned before it has if it
    /// is not `welcome`: a [silent](Incoming::is_silent) one is never adopted.
    pub fn accept(&mut self, now: Instant, welcome: impl Fn(&Incoming<L>) -> bool) -> Vec<Incoming<L>> {
        for listener in &self.listeners {
            let (beside, awaits_data) = (listener.beside, listener.awaits_data);
            let accepted = listener.accept(now).into_iter().filter_map(|socket| {
                let listening = listener.listening.clone();
                match listener.credential.as_ref().map(timeous_seal::Session::answer) {
                    None => Some(Incoming::plain(now, socket, (listening, beside), awaits_data)),
                    Some(Ok(session)) => Some(Incoming::sealed(now, socket, (listening, beside), session)),
                    Some(Err(error)) => {
                        tracing::warn!(%error, "no handshake for a caller");
                        None
                    }
                }
            });
            self.incoming.extend(accepted);
        }
        self.drop_oldest_handshakes();
        let known =
            self.incoming.extract_if(.., |incoming| incoming.look(now) || incoming.is_silent() && !welcome(incoming));
        known.filter(|incoming| !incoming.is_gone).collect()
    }

    /// Drops the oldest handshakes and silent callers beyond the limit.
    fn drop_oldest_handshakes(&mut self) {
        let is_waiting = |incoming: &Incoming<L>| incoming.is_handshaking() || incoming.is_silent();
        let mut excess =
            self.incoming.iter().filter(|incoming| is_waiting(incoming)).count().saturating_sub(MAX_HANDSHAKES);
        self.incoming.retain(|incoming| {
            let is_dropped = excess > 0 && is_waiting(incoming);
            excess -= usize::from(is_dropped);
            !is_dropped
        });
    }

    /// Runs the stream `session` over an accepted connection.
    pub fn adopt(&mut self, now: Instant, incoming: Incoming<L>, session: S, config: &TcpConfig) {
        let Incoming { socket, bytes, secrets, .. } = incoming;
        let heard = (secrets.as_ref(), &bytes[..]);
        self.add(Connection::adopted(now, self.clock, socket, session, config.clone(), heard));
    }

    /// Runs the stream `session` over a connection that the application has made, and of which it has read its own bytes.
    ///
    /// # Errors
    /// The system's.
    pub fn adopt_socket(&mut self, now: Instant, socket: TcpStream, session: S, config: &TcpConfig) -> io::Result<()> {
        let socket = Socket::accepted(socket)?;
        self.add(Connection::adopted(now, self.clock, socket, session, config.clone(), (None, &[])));
        Ok(())
    }

    /// Removes listeners that accept no new streams and whose UDP port is gone, with all streams that might move here.
    pub fn retain_listeners(&mut self, there: impl Fn(u64) -> bool) {
        self.listeners.retain(|listener| listener.wants_new || listener.beside.is_some_and(&there));
    }

    /// Listens on a socket, for new streams and for those that move here from the UDP port `beside`; returns its address. With a
    /// `credential`, callers have to agree on keys. Their framing has to be [`TcpFraming::Records`]. `awaits_data`: as
    /// [`TcpConfig::awaits_data`].
    ///
    /// # Errors
    /// The system's.
    pub fn listen(
        &mut self,
        socket: TcpListener,
        listening: L,
        beside: Option<u64>,
        credential: Option<ListenerCredential>,
        awaits_data: bool,
    ) -> io::Result<SocketAddr> {
        socket.set_nonblocking(true)?;
        let local = socket.local_addr()?;
        let paused_until = Cell::new(None);
        self.listeners.push(Listener {
            socket,
            listening,
            beside,
            credential,
            awaits_data,
            wants_new: true,
            paused_until,
        });
        Ok(local)
    }

    /// Accepts no new streams any more at the listeners of which `is_it` is true.
    pub fn stop_listening(&mut self, is_it: impl Fn(&L) -> bool) {
        for listener in &mut self.listeners {
            listener.wants_new &= !is_it(&listener.listening);
        }
        self.retain_listeners(|_| true);
    }

    fn add(&mut self, connection: Connection<S>) {
        let (id, interest) = (connection.id(), connection.interest());
        if let Err(error) = self.readiness.watch(connection.socket(), id, interest) {
            tracing::warn!(%error, "a TCP connection is looked at by the clock");
            self.always.insert(id);
        }
        self.connections.insert(id, Watched { connection, interest, has_tap: false });
        self.touched.insert(id);
    }

    /// Carries out a stream's request.
    pub fn obey(&mut self, now: Instant, id: StreamId, order: Order) {
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
    pub fn close_all(&mut self, now: Instant) {
        for id in self.connections.ids() {
            self.obey(now, id, Order::Abandon);
        }
    }

    /// Reads and delivers what has arrived, and runs timers.
    pub fn receive(&mut self, now: Instant) {
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

    fn each_touched(&mut self, mut look: impl FnMut(&mut Connection<S>)) {
        for &id in &self.touched {
            if let Some(Watched { connection, .. }) = self.connections.get_mut(id) {
                look(connection);
            }
        }
    }

    /// Sends as much as possible; returns whether there was progress.
    pub fn drain(&mut self, now: Instant, manager: &mut Manager) -> bool {
        let mut progress = false;
        self.each_touched(|connection| progress |= connection.drain(now, manager));
        progress
    }

    /// Ends the round of the connections that it looked at.
    pub fn wake_applications(&mut self, now: Instant, manager: &mut Manager) {
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
    pub fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let listeners = self.listeners.iter().filter(|listener| listener.paused_until.get().is_none());
        let listeners = listeners.map(|listener| PollFd::new(listener, PollFlags::IN));
        let incoming = self.incoming.iter().map(|incoming| PollFd::new(&incoming.socket, incoming.interest()));
        let connections = self.readiness.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        listeners.chain(incoming).chain(connections)
    }

    /// Returns the time of the next timer.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let incoming = self.incoming.iter().filter_map(|incoming| incoming.until);
        let paused = self.listeners.iter().filter_map(|listener| listener.paused_until.get());
        incoming.chain(paused).chain(self.timers.first_timeout()).min()
    }
}

impl<S: TcpSession> Watched<S> {
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
