//! The daemon: one thread that accepts clients, serves them, and disconnects them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use timeous_cm::ClientId;
use timeous_core::{Duration, Instant};
use timeous_engine::{Congestion, Engine, Gone, Waker, clock};
use timeous_ipc::messages::{Call, FromDaemon, Reason, ToDaemon, VERSION, Welcome};
use timeous_ipc::{Channel, ChannelError, Violation};

use crate::calls::SharedState;
use crate::client::{Client, ExceededTimeout};
use crate::config::Config;
use crate::datagrams::Datagrams;
use crate::error::DaemonError;
use crate::exchange::Exchange;
use crate::kernel::Kernel;
use crate::limits::{Usage, Users};
use crate::observability::Observability;
use crate::poller::{Interest, Poller, Token};
use crate::ready::Ready;
use crate::socket::{ListeningSocket, NewClient};
use crate::streams::{Owner, Streams};
use crate::view;
use crate::wire::{ReadResult, Wire};
use crate::zones::Zones;

/// Maximum number of clients accepted, and of a client's messages read, per turn.
const AT_ONCE: usize = 16;
/// Interval at which path states are published and events logged, while there are changes.
const OFTEN: Duration = Duration::from_millis(100);
/// Interval of client timeouts and of saving learned path states.
const SELDOM: Duration = Duration::from_secs(1);
/// Pause of accepting when the system has no descriptors left.
const SHUT: Duration = Duration::from_millis(200);

/// One Congestion Manager and one engine for all processes of a host.
///
/// ```no_run
/// use timeous_daemon::{Config, Daemon};
/// let daemon = Daemon::bind(Config::at("/run/timeous/daemon.sock"))?;
/// let stopper = daemon.stopper();
/// let thread = std::thread::spawn(move || daemon.run());
/// stopper.stop();
/// thread.join().unwrap()?;
/// # Ok::<(), timeous_daemon::DaemonError>(())
/// ```
#[derive(Debug)]
pub struct Daemon {
    door: ListeningSocket,
    clients: BTreeMap<u64, Client>,
    by_cm: BTreeMap<ClientId, u64>,
    /// Clients with more work, in turn.
    active: VecDeque<u64>,
    house: SharedState,
    ready: Arc<Ready>,
    waker: Waker,
    stopping: Arc<AtomicBool>,
    next_client: u64,
    /// Time at which accepting resumes, if it is paused.
    shut_until: Option<Instant>,
    /// Whether path states may have changed since they were published.
    paths_dirty: bool,
    next_often: Instant,
    next_seldom: Instant,
    /// Clients with premature feedback, and when the first of it has to be retried.
    early: BTreeSet<u64>,
    next_early: Option<Instant>,
    kernel_tcp: Option<PathBuf>,
    datagrams: Datagrams,
}

/// Stops a [`Daemon`], from any thread.
#[derive(Clone, Debug)]
pub struct Stopper {
    stopping: Arc<AtomicBool>,
    waker: Waker,
}

impl Stopper {
    /// Stops the daemon, which says goodbye to its clients.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
}

impl Daemon {
    /// Opens the socket, and starts the engine. Clients may connect from now on, and wait for [`run`](Self::run).
    ///
    /// # Errors
    /// See [`DaemonError`].
    pub fn bind(config: Config) -> Result<Self, DaemonError> {
        config.limits.geometry.check()?;
        let now = clock::now();
        let door = ListeningSocket::open(&config.path, config.mode)?;
        let congestion = Congestion::default();
        let sight = Observability::open(&config, &congestion, now)?;
        let engine = Engine::with_congestion(congestion.clone())?;
        let waker = Waker::new()?;
        let poller = Poller::new()?;
        poller.watch(&door, Token::ListeningSocket, Interest::Readable)?;
        poller.watch(&waker, Token::Waker, Interest::Readable)?;
        let datagrams = Datagrams::new(now, config.count_datagrams.as_deref())?;
        let users = Users::new(config.limits, config.share_with_host);
        Ok(Self {
            door,
            clients: BTreeMap::new(),
            by_cm: BTreeMap::new(),
            active: VecDeque::new(),
            house: SharedState {
                streams: Streams::default(),
                zones: Zones::default(),
                congestion,
                users,
                poller,
                sight,
                engine,
            },
            ready: Arc::new(Ready::new(waker.clone())),
            waker,
            stopping: Arc::new(AtomicBool::new(false)),
            next_client: 1,
            shut_until: None,
            paths_dirty: false,
            next_often: now,
            next_seldom: now,
            early: BTreeSet::new(),
            next_early: None,
            kernel_tcp: config.kernel_tcp,
            datagrams,
        })
    }

    /// Returns the path of its socket.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.door.path()
    }

    /// Returns the address of the metrics server, if there is one.
    #[must_use]
    pub fn metrics(&self) -> Option<std::net::SocketAddr> {
        self.house.sight.metrics()
    }

    /// Returns its Congestion Manager, for others in this process that share it with the daemon's clients.
    #[must_use]
    pub fn congestion(&self) -> &Congestion {
        &self.house.congestion
    }

    /// Returns a handle that stops the daemon.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper { stopping: self.stopping.clone(), waker: self.waker.clone() }
    }

    /// Serves clients until it is [stopped](Stopper::stop).
    ///
    /// # Errors
    /// The system's: polling fails.
    pub fn run(mut self) -> Result<(), DaemonError> {
        let mut kernel = Kernel::new(clock::now(), self.kernel_tcp.take());
        while !self.stopping.load(Ordering::SeqCst) {
            let due = kernel.due().into_iter().chain(self.datagrams.due()).min();
            let limit = self.may_sleep(clock::now(), due);
            for token in self.house.poller.wait(limit)? {
                self.handle(token);
            }
            for client in self.ready.take() {
                if let Some(&id) = self.by_cm.get(&client) {
                    self.activate(id);
                }
            }
            self.look_at_the_early(clock::now());
            self.take_turns();
            self.look_after(clock::now())?;
            kernel.exchange(clock::now(), &self.house.congestion);
            self.paths_dirty |= self.datagrams.charge(clock::now(), &self.house.congestion);
        }
        self.say_goodbye();
        Ok(())
    }

    /// Returns the maximum sleep; `None`: unlimited.
    fn may_sleep(&self, now: Instant, kernel: Option<Instant>) -> Option<Duration> {
        if !self.ready.rest() || !self.active.is_empty() {
            return Some(Duration::ZERO);
        }
        let often = (self.paths_dirty || self.house.sight.is_logging()).then_some(self.next_often);
        let due = often
            .into_iter()
            .chain(self.shut_until)
            .chain(kernel)
            .chain(self.next_early)
            .chain([self.next_seldom])
            .min();
        due.map(|due| due.saturating_since(now))
    }

    fn handle(&mut self, token: Token) {
        match token {
            Token::ListeningSocket => self.let_in(),
            Token::Waker => drop(self.waker.clear()),
            Token::Client(id) => self.handle_client(id),
            Token::Bell(id) => self.activate(id),
            Token::Stream(id) | Token::StreamBell(id) => self.pump(id),
            Token::Callers(listener) => self.take_calls(listener as u32),
        }
    }

    fn let_in(&mut self) {
        for _ in 0..AT_ONCE {
            match self.door.visitor() {
                Ok(Some(visitor)) => self.admit(visitor),
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "nobody is let in for a while");
                    self.house.poller.forget(&self.door);
                    self.shut_until = Some(clock::now() + SHUT);
                    return;
                }
            }
        }
    }

    fn admit(&mut self, NewClient { socket, pid, uid }: NewClient) {
        let mut wire = Wire::new(socket);
        if !self.house.users.take_client(uid) {
            if let Some(omitted) = self.house.users.may_log(clock::now(), uid) {
                tracing::warn!(pid, uid, omitted, "too many clients");
            }
            wire.try_send(&FromDaemon::Goodbye(Reason::Crowded), &[]);
            return;
        }
        let id = self.next_client;
        if let Err(error) = self.house.poller.watch(&wire, Token::Client(id), Interest::Readable) {
            if let Some(omitted) = self.house.users.may_log(clock::now(), uid) {
                tracing::error!(%error, pid, uid, omitted, "a client cannot be watched");
            }
            self.house.users.give_back(uid, Usage { clients: 1, ..Usage::default() });
            return;
        }
        self.next_client += 1;
        let cm = self.house.congestion.join(self.ready.clone());
        self.by_cm.insert(cm, id);
        let owner = Owner { client: id, uid };
        self.clients.insert(id, Client::new(clock::now(), owner, pid, cm, wire));
        let seen = view::Client { id: cm.as_u64(), pid: pid.unsigned_abs(), uid };
        self.house.sight.board().add(seen);
        tracing::debug!(client = id, pid, uid, "came in");
    }

    /// Reads and executes a client's messages.
    fn handle_client(&mut self, id: u64) {
        for _ in 0..AT_ONCE {
            let Some(client) = self.clients.get_mut(&id) else { return };
            // A failed write shows that the client is gone.
            client.wire.flush();
            if client.wire.is_full() {
                break;
            }
            let done = match client.wire.receive() {
                Ok(ReadResult::Message(message)) => obey(&mut self.house, client, message),
                Ok(ReadResult::Nothing) => break,
                Ok(ReadResult::End) => Err(DisconnectReason::Left),
                Err(violation) => Err(violation.into()),
            };
            match done {
                Ok(cost) => {
                    self.activate(id);
                    if cost == Cost::Much {
                        break;
                    }
                }
                Err(farewell) => return self.dismiss(id, farewell),
            }
        }
        self.watch_socket(id);
    }

    fn watch_socket(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        let interest = client.wants();
        if client.interest != interest {
            client.interest = interest;
            if let Err(error) = self.house.poller.change(&client.wire, Token::Client(id), interest) {
                tracing::error!(%error, client = id, "its socket cannot be watched");
            }
        }
    }

    fn activate(&mut self, id: u64) {
        if let Some(client) = self.clients.get_mut(&id)
            && !std::mem::replace(&mut client.active, true)
        {
            self.active.push_back(id);
        }
    }

    /// Gives each client with work one turn.
    fn take_turns(&mut self) {
        for _ in 0..self.active.len() {
            let Some(id) = self.active.pop_front() else { return };
            let Some(client) = self.clients.get_mut(&id) else { continue };
            client.active = false;
            let Some(exchange) = &mut client.exchange else { continue };
            self.paths_dirty = true;
            let turn = exchange.turn(clock::now(), &mut self.house.congestion.lock(), client.cm);
            match turn {
                Ok(turn) => {
                    if turn.wake {
                        // If the socket is full, the client has much to read already.
                        client.wire.try_send(&FromDaemon::Wake, &[]);
                    }
                    if let Some(due) = exchange.due() {
                        self.early.insert(id);
                        self.next_early = self.next_early.into_iter().chain([due]).min();
                    }
                    if turn.more {
                        self.activate(id);
                    }
                }
                Err(violation) => self.dismiss(id, violation.into()),
            }
        }
    }

    fn look_at_the_early(&mut self, now: Instant) {
        if self.next_early.take_if(|at| *at <= now).is_some() {
            for id in std::mem::take(&mut self.early) {
                self.activate(id);
            }
        }
    }

    fn pump(&mut self, stream: u64) {
        let SharedState { streams, zones, users, poller, .. } = &mut self.house;
        self.paths_dirty = true;
        match streams.pump((users, poller), |owner, key| zones.find(owner.uid, key), stream) {
            None | Some((_, Gone::Left | Gone::Closed)) => {}
            Some((owner, broken)) => self.dismiss(owner.client, DisconnectReason::Stream(broken)),
        }
    }

    fn take_calls(&mut self, listener: u32) {
        for _ in 0..AT_ONCE {
            let SharedState { streams, users, poller, .. } = &mut self.house;
            let Some((owner, ends)) = streams.caller((users, poller), listener) else { return };
            let Some(client) = self.clients.get_mut(&owner.client) else { return };
            let descriptors = ends.descriptors();
            // If the socket is full, the stream ends: its caller may try again.
            if !client.wire.try_send(&FromDaemon::Incoming { listener }, &descriptors)
                && let Some(omitted) = users.may_log(clock::now(), owner.uid)
            {
                tracing::warn!(client = owner.client, omitted, "a caller is refused: the client does not read");
            }
        }
        // More may be waiting: the bell is signalled once for all of them.
        self.house.streams.ring(listener);
    }

    /// Disconnects a client.
    fn dismiss(&mut self, id: u64, farewell: DisconnectReason) {
        let Some(mut client) = self.clients.remove(&id) else { return };
        let (owner, pid) = (client.owner, client.pid);
        let Owner { uid, .. } = owner;
        let is_leaving = matches!(farewell, DisconnectReason::Left);
        let omitted = if is_leaving { None } else { self.house.users.may_log(clock::now(), uid) };
        match &farewell {
            DisconnectReason::Left => tracing::debug!(client = id, pid, uid, "left"),
            DisconnectReason::Version
            | DisconnectReason::ExceededTimeout(_)
            | DisconnectReason::NoMemory(_)
            | DisconnectReason::Stopping => {
                if let Some(omitted) = omitted {
                    tracing::info!(client = id, pid, uid, name = client.name, why = %farewell, omitted, "is shown out");
                }
            }
            DisconnectReason::Violation(_) | DisconnectReason::Stream(_) => {
                if let Some(omitted) = omitted {
                    tracing::warn!(client = id, pid, uid, name = client.name, why = %farewell, omitted, "is shown out");
                }
                self.house.sight.board().violated();
            }
        }
        if let Some(reason) = farewell.reason() {
            client.wire.try_send(&FromDaemon::Goodbye(reason), &[]);
        }
        self.house.forget(clock::now(), &client);
        self.by_cm.remove(&client.cm);
    }

    /// Runs periodic work.
    fn look_after(&mut self, now: Instant) -> io::Result<()> {
        if self.shut_until.is_some_and(|at| at <= now) {
            self.shut_until = None;
            self.house.poller.watch(&self.door, Token::ListeningSocket, Interest::Readable)?;
        }
        if self.next_often <= now {
            self.next_often = now + OFTEN;
            self.publish();
            if self.house.sight.is_logging() {
                self.house.sight.take_down(&self.house.congestion);
            }
        }
        if self.next_seldom <= now {
            self.next_seldom = now + SELDOM;
            self.house.streams.tidy(&mut self.house.users);
            self.house.zones.tidy(&mut self.house.users);
            self.house.sight.take_down(&self.house.congestion);
            let lapsed: Vec<_> = self.clients.iter_mut().filter_map(|(&id, c)| Some((id, c.lapse(now)?))).collect();
            for (id, lapse) in lapsed {
                self.dismiss(id, DisconnectReason::ExceededTimeout(lapse));
            }
        }
        Ok(())
    }

    /// Publishes all path states if anything has changed: one client's actions change the paths of others.
    fn publish(&mut self) {
        if !std::mem::take(&mut self.paths_dirty) {
            return;
        }
        let exchanges = self.clients.values_mut().filter_map(|client| client.exchange.as_mut());
        for exchange in exchanges {
            // One lock per client, to keep it short.
            exchange.publish_all(&self.house.congestion.lock());
        }
    }

    fn say_goodbye(&mut self) {
        for id in self.clients.keys().copied().collect::<Vec<_>>() {
            self.dismiss(id, DisconnectReason::Stopping);
        }
        self.house.sight.take_down(&self.house.congestion);
    }
}

/// Cost of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cost {
    Little,
    /// Expensive: other clients get their turn.
    Much,
}

/// Executes a client's message.
fn obey(house: &mut SharedState, client: &mut Client, message: ToDaemon) -> Result<Cost, DisconnectReason> {
    let now = clock::now();
    match (message, &mut client.exchange) {
        (ToDaemon::Hello { version, .. }, None) if version != VERSION => Err(DisconnectReason::Version),
        (ToDaemon::Hello { name, .. }, None) => {
            client.name = name;
            welcome(house, client)?;
            Ok(Cost::Much)
        }
        (ToDaemon::Call { id, call }, Some(exchange)) => {
            exchange.catch_up(now, &mut house.congestion.lock())?;
            let costly = matches!(call, Call::Describe(_) | Call::Connect { .. } | Call::Listen { .. });
            let answer = house.answer(now, client, call);
            client.answer(id, answer);
            Ok(if costly { Cost::Much } else { Cost::Little })
        }
        (ToDaemon::Hello { .. }, Some(_)) | (ToDaemon::Call { .. }, None) => Err(Violation::OutOfOrder.into()),
    }
}

fn welcome(house: &mut SharedState, client: &mut Client) -> Result<(), DisconnectReason> {
    let geometry = house.users.limits().geometry;
    let (channel, descriptors) = Channel::new(geometry)?;
    house.poller.watch(channel.bell(), Token::Bell(client.owner.client), Interest::Rung)?;
    client.exchange = Some(Exchange::new(channel));
    let daemon = std::process::id();
    let welcome = Welcome { version: VERSION, client: client.cm.as_u64(), daemon, geometry };
    client.wire.send_or_queue(&FromDaemon::Welcome(welcome), descriptors.into());
    Ok(())
}

/// Reason for a client's disconnection.
#[derive(Debug, thiserror::Error)]
enum DisconnectReason {
    #[error("it has left")]
    Left,
    #[error("it speaks another version")]
    Version,
    #[error("{0}")]
    Violation(#[from] Violation),
    #[error("{0}")]
    Stream(Gone),
    #[error("{0}")]
    ExceededTimeout(ExceededTimeout),
    #[error("there is no room for it: {0}")]
    NoMemory(#[from] ChannelError),
    #[error("the daemon is shutting down")]
    Stopping,
}

impl From<io::Error> for DisconnectReason {
    fn from(error: io::Error) -> Self {
        Self::NoMemory(error.into())
    }
}

impl DisconnectReason {
    /// Returns the reason that the client is told.
    fn reason(&self) -> Option<Reason> {
        match self {
            Self::Left => None,
            Self::Version => Some(Reason::Version { daemon: VERSION }),
            Self::Violation(_) | Self::Stream(_) | Self::ExceededTimeout(ExceededTimeout::Silent) => {
                Some(Reason::Violation(self.to_string()))
            }
            Self::ExceededTimeout(ExceededTimeout::Deaf) => Some(Reason::Deaf),
            Self::NoMemory(_) => Some(Reason::Crowded),
            Self::Stopping => Some(Reason::Stopping),
        }
    }
}
