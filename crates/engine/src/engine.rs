//! The engine as an application uses it: threads that run transports over real sockets.

use std::net::{IpAddr, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Once, mpsc};
use std::thread;

use timeous_core::Instant;

use crate::carrier::Carrier;
use crate::clock;
use crate::command::{Command, Commands, Incoming, ListenerId, Made, Offer, PortLife, User};
use crate::config::StreamConfig;
use crate::congestion::Congestion;
use crate::error::EngineError;
use crate::port_group::{PortGroup, place};
use crate::stream::Stream;
use crate::waker::Waker;
use crate::workers::WorkerThread;

/// Prepares parity, if streams over this carrier have it, for all engines of the process, in a thread that ends at once: in a worker's it
/// would hold up all streams.
fn prepare_parity(carrier: Carrier) {
    static BEGUN: Once = Once::new();
    if carrier != Carrier::Tcp {
        BEGUN.call_once(|| {
            // Without a thread, the first parity packet waits.
            let _ = thread::Builder::new().name("timeous-parity".into()).spawn(timeous_dccp::prepare_parity);
        });
    }
}

/// Threads that run the transports of this process; each of these workers has a Congestion Manager.
///
/// One worker serves many connections. With several, streams are placed by the other host's address, so that the
/// streams to one host share their congestion state. Streams over plain IP, and listeners over TCP or with
/// [`Carrier::Auto`], run on the first one. When the engine is dropped, its connections end.
#[derive(Debug)]
pub struct Engine {
    workers: Vec<WorkerThread>,
}

impl Engine {
    /// Starts one worker, with a Congestion Manager of its own.
    ///
    /// # Errors
    /// The system's: no thread, no descriptor.
    pub fn start() -> Result<Self, EngineError> {
        Self::with_congestion(Congestion::default())
    }

    /// Starts one worker, with a Congestion Manager that others may use as well.
    ///
    /// # Errors
    /// [`EngineError::CongestionTaken`] if another engine runs with it; the system's: no thread, no descriptor.
    pub fn with_congestion(congestion: Congestion) -> Result<Self, EngineError> {
        Ok(Self { workers: vec![WorkerThread::start(congestion)?] })
    }

    /// Starts `count` workers, each with a Congestion Manager of its own.
    ///
    /// # Errors
    /// The system's: no thread, no descriptor.
    pub fn with_workers(count: NonZeroUsize) -> Result<Self, EngineError> {
        let workers = (0..count.get()).map(|_| WorkerThread::start(Congestion::default())).collect::<Result<_, _>>()?;
        Ok(Self { workers })
    }

    /// Returns whether a worker has ended by a panic, as of an application's late choice: its streams are over.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.workers.iter().any(WorkerThread::has_ended)
    }

    /// Returns the number of workers.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// Returns the Congestion Manager of the first worker: the only one, unless the engine was started with several.
    #[must_use]
    pub fn congestion(&self) -> &Congestion {
        &self.workers[0].congestion
    }

    /// Returns the Congestion Manager of streams to `host`, apart from those that run on the first worker wherever they
    /// go.
    #[must_use]
    pub fn congestion_of(&self, host: IpAddr) -> &Congestion {
        &self.workers[place(host, self.workers.len())].congestion
    }

    /// Returns the Congestion Managers of all workers.
    pub fn all_congestion(&self) -> impl Iterator<Item = &Congestion> {
        self.workers.iter().map(|worker| &worker.congestion)
    }

    /// Connects to a listener. The stream can be filled while the handshake goes on.
    ///
    /// # Errors
    /// The environment's: no socket. A missing answer is reported by the stream's status.
    pub fn connect(&self, remote: SocketAddr, config: StreamConfig) -> Result<Stream, EngineError> {
        match self.call(remote, User::Here, config)? {
            Made::Here(stream) => Ok(*stream),
            Made::Elsewhere(_) => unreachable!("a stream was asked for that is used here"),
        }
    }

    /// Connects to a listener for another process.
    ///
    /// # Errors
    /// As [`connect`](Self::connect)'s.
    pub fn connect_for(&self, remote: SocketAddr, config: StreamConfig) -> Result<Offer, EngineError> {
        match self.call(remote, User::Elsewhere, config)? {
            Made::Elsewhere(offer) => Ok(*offer),
            Made::Here(_) => unreachable!("a stream was asked for that is used elsewhere"),
        }
    }

    /// Runs a stream over a connected TCP socket, without encryption of its own.
    ///
    /// # Errors
    /// The environment's: the socket is not connected. [`EngineError::WrongSealing`]: `config` is not for plain TCP.
    pub fn adopt(&self, socket: TcpStream, config: StreamConfig) -> Result<Stream, EngineError> {
        let worker = &self.workers[place(socket.peer_addr()?.ip(), self.workers.len())];
        let (reply, answer) = mpsc::channel();
        worker.commands.send(Command::Adopt { socket, config: Box::new(config), reply });
        match answer.recv().map_err(|_| EngineError::Stopped)?? {
            Made::Here(stream) => Ok(*stream),
            Made::Elsewhere(_) => unreachable!("a stream was asked for that is used here"),
        }
    }

    fn call(&self, remote: SocketAddr, user: User, config: StreamConfig) -> Result<Made, EngineError> {
        prepare_parity(config.carrier);
        let (reply, answer) = mpsc::channel();
        let worker = match config.carrier {
            Carrier::Ip => 0,
            Carrier::Udp | Carrier::Tcp | Carrier::Auto => place(remote.ip(), self.workers.len()),
        };
        let command = Command::Connect { remote, user, config: Box::new(config), reply };
        self.workers[worker].commands.send(command);
        answer.recv().map_err(|_| EngineError::Stopped)?
    }

    /// Listens for connections.
    ///
    /// # Errors
    /// The environment's: the port is taken, or not to be had.
    pub fn listen(&self, local: SocketAddr, config: StreamConfig) -> Result<Listener, EngineError> {
        self.listen_with_room(local, config, None)
    }

    /// Listens for at most `room` connections, if given; others are refused as busy. See [`Listener::set_room`].
    ///
    /// # Errors
    /// As [`listen`](Self::listen)'s.
    pub fn listen_with_room(
        &self,
        local: SocketAddr,
        config: StreamConfig,
        room: Option<usize>,
    ) -> Result<Listener, EngineError> {
        Ok(Listener(self.wait_for_calls(local, User::Here, config, room)?))
    }

    /// Listens on behalf of another process, for `room` connections if it is given.
    ///
    /// # Errors
    /// As [`listen`](Self::listen)'s.
    pub fn listen_for(
        &self,
        local: SocketAddr,
        config: StreamConfig,
        room: Option<usize>,
    ) -> Result<ListenerFor, EngineError> {
        Ok(ListenerFor(self.wait_for_calls(local, User::Elsewhere, config, room)?))
    }

    fn wait_for_calls(
        &self,
        local: SocketAddr,
        user: User,
        config: StreamConfig,
        room: Option<usize>,
    ) -> Result<Waiting, EngineError> {
        prepare_parity(config.carrier);
        let incoming = Incoming::new(room)?;
        let sharing = if config.carrier == Carrier::Udp { self.workers.len() } else { 1 };
        let commands: Vec<_> = self.workers[..sharing].iter().map(|worker| worker.commands.clone()).collect();
        let group =
            (sharing > 1).then(|| PortGroup::new(commands.iter().map(|commands| commands.waker().clone()).collect()));
        let mut waiting = Waiting { ids: Vec::new(), local, life: PortLife::default(), incoming };
        for (place, commands) in commands.into_iter().enumerate() {
            let (reply, answer) = mpsc::channel();
            commands.send(Command::Listen {
                local: waiting.local,
                user,
                config: Box::new(config.clone()),
                incoming: waiting.incoming.clone(),
                group: group.clone().map(|group| (group, place)),
                reply,
            });
            let (id, local, life) = answer.recv().map_err(|_| EngineError::Stopped)??;
            (waiting.local, waiting.life) = (local, life);
            waiting.ids.push((commands, id));
        }
        Ok(waiting)
    }
}

/// A listening port, for an application here or in another process.
#[derive(Debug)]
struct Waiting {
    /// Its number at each worker that listens.
    ids: Vec<(Commands, ListenerId)>,
    local: SocketAddr,
    life: PortLife,
    incoming: Arc<Incoming>,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        for (commands, id) in &self.ids {
            commands.send(Command::StopListening(*id, self.incoming.clone()));
        }
    }
}

/// A listening port. Dropping it refuses new connections and resets those not accepted yet; accepted ones go on.
#[derive(Debug)]
pub struct Listener(Waiting);

impl Listener {
    /// Returns the local address, with the actual port if port 0 was requested.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    /// Sets the number of further connections that are accepted; `None`: any number. Others are refused as busy: in DCCP by a Reset "Too
    /// Busy" (RFC 4340 §5.6), in TCP by a reset. A connection counts when its handshake is complete.
    pub fn set_room(&self, room: Option<usize>) {
        self.0.incoming.set_room(room);
    }

    /// Returns the next incoming connection, if any.
    pub fn poll_accept(&mut self) -> Option<Stream> {
        match self.0.incoming.pop()? {
            Made::Here(stream) => Some(*stream),
            Made::Elsewhere(_) => unreachable!("what comes in on this port is used here"),
        }
    }

    /// Waits for a connection, but not beyond `deadline`.
    pub fn accept(&mut self, deadline: Option<Instant>) -> Option<Stream> {
        loop {
            if let Some(stream) = self.poll_accept() {
                return Some(stream);
            }
            let left = deadline.map(|at| at.saturating_since(clock::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            self.waker().wait(left);
        }
    }

    /// Returns the waker that is signalled by an incoming connection.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.0.incoming.waker
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waker().as_fd()
    }
}

/// A listening port on behalf of another process. Dropping it refuses new connections.
#[derive(Debug)]
pub struct ListenerFor(Waiting);

impl ListenerFor {
    /// Returns the local address, with the actual port if port 0 was requested.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    /// Returns a handle that tells whether the port is open, which it may be after the listener was dropped.
    #[must_use]
    pub fn port(&self) -> PortLife {
        self.0.life.clone()
    }

    /// Returns the next incoming connection, if any.
    pub fn poll_accept(&mut self) -> Option<Offer> {
        match self.0.incoming.pop()? {
            Made::Elsewhere(offer) => Some(*offer),
            Made::Here(_) => unreachable!("what comes in on this port is used elsewhere"),
        }
    }

    /// Returns the waker that is signalled by an incoming connection.
    #[must_use]
    pub fn waker(&self) -> &Waker {
        &self.0.incoming.waker
    }
}
