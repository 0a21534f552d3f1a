//! A process's end: verbs to the daemon, events from it, one descriptor to poll.

mod event;
mod link;
mod verbs;
mod watch;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::event::PollFlags;
use timeous_core::{Duration, Instant};

pub use event::{Event, Flow};

use crate::clock::now;
use crate::error::{ConnectError, Lost};
use crate::messages::{FROM_DAEMON_MAX, FromDaemon, ToDaemon, VERSION, encode};
use crate::path::daemon_socket;
use crate::socket::{connect_to, send};
use link::{Link, receive_message};
use watch::{Watch, wait_for};

/// Settings of a client's connection.
#[derive(Clone, Debug)]
pub struct Options {
    /// Path of the daemon's socket.
    pub path: PathBuf,
    /// Name of the client, for display.
    pub name: String,
    /// Timeout of the daemon's answers.
    pub timeout: Duration,
}

impl Default for Options {
    /// Returns the socket of [`daemon_socket`], the name of the program, two seconds.
    fn default() -> Self {
        let name = std::env::args_os().next().map(PathBuf::from);
        let name = name.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        Self { path: daemon_socket(), name: name.unwrap_or_default(), timeout: Duration::from_secs(2) }
    }
}

/// A connection to the daemon, which survives restarts of the daemon.
///
/// Only verbs with an answer wait, for at most [`Options::timeout`]; then the connection is given up, as it is when the
/// daemon does not read submissions.
///
/// While disconnected, verbs fail with [`Disconnected`](crate::ClientError::Disconnected);
/// [`poll_event`](Self::poll_event) reconnects once the client's descriptor is signalled. Flows are lost with the
/// connection.
///
/// ```no_run
/// use timeous_ipc::{Client, Event, Options, OpenFlow};
/// let mut client = Client::connect(Options::default())?;
/// let flow = client.open(OpenFlow::to("192.0.2.1".parse()?, 1_200))?;
/// client.request(flow)?;
/// while client.wait(None) {
///     if let Some(Event::Granted(flow)) = client.poll_event() {
///         client.notify(flow, 1_000)?; // the late choice was a packet of 1000 bytes
///         break;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Client {
    options: Options,
    watch: Watch,
    state: State,
    /// Number of connections so far, to tell their flows apart.
    connection: u32,
    /// Events that are returned before all others.
    events: VecDeque<Event>,
    /// When an awake client last read the socket; `None` if it has to do so now.
    heard_at: Option<Instant>,
}

#[derive(Debug)]
enum State {
    Up(Box<Link>),
    /// Connected, and waiting for the welcome.
    Greeting {
        socket: OwnedFd,
        until: Instant,
        pause: Duration,
    },
    /// Disconnected; the next attempt is scheduled.
    Down {
        at: Instant,
        pause: Duration,
    },
}

/// Interval between connection attempts: the first and the maximum.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// Interval at which an awake client reads the socket.
const HEAR_EVERY: Duration = Duration::from_millis(1);
/// Interval between attempts while the daemon's backlog is full.
const CROWDED_PAUSE: Duration = Duration::from_millis(5);

impl Client {
    /// Connects to the daemon, and waits for its welcome.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(options: Options) -> Result<Self, ConnectError> {
        let deadline = now() + options.timeout;
        let watch = Watch::new()?;
        let socket = loop {
            match greet(&options) {
                Ok(socket) => break socket,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if now() >= deadline {
                        return Err(ConnectError::NoAnswer);
                    }
                    watch.wait(Some(now() + CROWDED_PAUSE));
                }
                Err(error) => {
                    return Err(ConnectError::NoDaemon { path: options.path.display().to_string(), error });
                }
            }
        };
        if !wait_for(&socket, PollFlags::IN, Some(deadline)) {
            return Err(ConnectError::NoAnswer);
        }
        watch.add(&socket)?;
        let link = welcomed(socket, 1, options.timeout)?.map_err(|_| ConnectError::NoAnswer)?;
        let state = State::Up(Box::new(link));
        Ok(Self { options, watch, state, connection: 1, events: VecDeque::new(), heard_at: None })
    }

    /// Returns its settings.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns whether it is connected at present.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Returns the next event. After `None` the descriptor is signalled for the next one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.poll(true)
    }

    /// Returns the next event, for a caller that polls again soon or [dozes](Self::doze) before it sleeps: after `None`
    /// the descriptor is *not* signalled. It mostly takes no system call: the socket is read once per millisecond.
    pub fn poll_awake(&mut self) -> Option<Event> {
        if self.events.is_empty()
            && let State::Up(link) = &mut self.state
        {
            match link.queued() {
                Ok(Some(event)) => return Some(event),
                Ok(None) => {
                    let time = now();
                    if self.heard_at.is_some_and(|at| time.saturating_since(at) < HEAR_EVERY) {
                        return None;
                    }
                    self.heard_at = Some(time);
                }
                Err(lost) => self.on_disconnected(lost),
            }
        }
        self.poll(false)
    }

    fn poll(&mut self, dozes: bool) -> Option<Event> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            self.watch.rang();
            match &mut self.state {
                State::Up(link) => match link.next_or_beat(dozes) {
                    Ok(Ok(event)) => return Some(event),
                    Ok(Err(next_beat)) => {
                        if let Some(at) = next_beat {
                            self.watch.by(at);
                        }
                        return None;
                    }
                    Err(lost) => self.on_disconnected(lost),
                },
                State::Greeting { .. } | State::Down { .. } => {
                    if !self.reach() {
                        return None;
                    }
                    self.events.push_back(Event::Reconnected);
                }
            }
        }
    }

    /// Sleeps until there may be an event, but not beyond `deadline`; `false` if there is none by then. Call it when
    /// [`poll_event`](Self::poll_event) has nothing.
    pub fn wait(&mut self, deadline: Option<Instant>) -> bool {
        !self.doze() || self.watch.wait(deadline)
    }

    /// Prepares to sleep: the descriptor is signalled for the next event. `false` if there is one already.
    pub fn doze(&mut self) -> bool {
        if !self.events.is_empty() {
            return false;
        }
        let State::Up(link) = &mut self.state else { return true };
        match link.doze() {
            Ok(asleep) => asleep,
            Err(lost) => {
                self.on_disconnected(lost);
                false
            }
        }
    }

    /// Signals the descriptor for pending and future events, for callers that hand it out.
    pub fn ring_from_now_on(&mut self) {
        if !self.doze() {
            self.watch.nudge();
        }
    }

    /// Ends the sleep prepared by [`doze`](Self::doze): the daemon need not signal. `rung`: the descriptor was
    /// signalled.
    pub fn rise(&mut self, rung: bool) {
        if rung {
            self.heard_at = None;
        }
        if let State::Up(link) = &self.state {
            link.rise();
        }
    }

    /// Handles the loss of the connection.
    fn on_disconnected(&mut self, lost: Lost) {
        self.state = State::Down { at: now() + FIRST_PAUSE, pause: FIRST_PAUSE };
        self.events.push_back(Event::Disconnected(lost));
        self.watch.nudge();
    }

    /// Advances a reconnection; returns `true` once connected.
    fn reach(&mut self) -> bool {
        let time = now();
        let state = std::mem::replace(&mut self.state, State::Down { at: time, pause: FIRST_PAUSE });
        self.state = match state {
            State::Up(link) => State::Up(link),
            State::Down { at, pause } if time < at => State::Down { at, pause },
            State::Down { pause, .. } => match greet(&self.options).and_then(|socket| {
                self.watch.add(&socket)?;
                Ok(socket)
            }) {
                Ok(socket) => State::Greeting { socket, until: time + self.options.timeout, pause },
                Err(_) => later(time, pause),
            },
            State::Greeting { socket, until, pause } => {
                let connection = self.connection.wrapping_add(1);
                match welcomed(socket, connection, self.options.timeout) {
                    Ok(Ok(link)) => {
                        self.connection = connection;
                        State::Up(Box::new(link))
                    }
                    Ok(Err(socket)) if time < until => State::Greeting { socket, until, pause },
                    Ok(Err(_)) | Err(_) => later(time, pause),
                }
            }
        };
        match self.state {
            State::Up(_) => {
                self.watch.still();
                return true;
            }
            State::Greeting { until, .. } => self.watch.by(until),
            State::Down { at, .. } => self.watch.by(at),
        }
        false
    }
}

/// Returns the state that schedules the next attempt.
fn later(time: Instant, pause: Duration) -> State {
    State::Down { at: time + pause, pause: (pause * 2).min(LONGEST_PAUSE) }
}

/// Connects and sends the hello.
fn greet(options: &Options) -> io::Result<OwnedFd> {
    say_hello(connect_to(&options.path)?, &options.name)
}

fn say_hello(socket: OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let hello = encode(&ToDaemon::Hello { version: VERSION, name: name.chars().take(64).collect() });
    match send(&socket, &hello, &[]) {
        Ok(true) => Ok(socket),
        // A fresh socket has room for a hello.
        Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
        // A daemon that accepts no more clients sends a goodbye and closes, maybe before the hello: the goodbye can be
        // read.
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(socket),
        Err(error) => Err(error),
    }
}

/// Reads the daemon's welcome; returns the socket if there is none yet.
fn welcomed(socket: OwnedFd, connection: u32, every: Duration) -> Result<Result<Link, OwnedFd>, ConnectError> {
    match receive_message(&socket, &mut vec![0; FROM_DAEMON_MAX]) {
        Ok(None) => Ok(Err(socket)),
        Ok(Some((FromDaemon::Welcome(welcome), descriptors))) => {
            Link::new(socket, (welcome, descriptors), connection, every).map(Ok)
        }
        Ok(Some((FromDaemon::Goodbye(reason), _))) => Err(ConnectError::Refused(reason)),
        Ok(Some(_)) => Err(ConnectError::Foreign("it does not begin with a welcome".to_owned())),
        Err(lost) => Err(ConnectError::Foreign(lost.to_string())),
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watch.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::messages::Reason;

    #[test]
    fn a_goodbye_that_comes_before_the_hello_is_heard() {
        let (ours, daemons) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::NONBLOCK, None).unwrap();
        send(&daemons, &encode(&FromDaemon::Goodbye(Reason::Crowded)), &[]).unwrap();
        drop(daemons);
        let socket = say_hello(ours, "late").unwrap();
        let refused = welcomed(socket, 0, Duration::from_secs(1)).unwrap_err();
        assert!(matches!(refused, ConnectError::Refused(Reason::Crowded)), "{refused}");
    }
}
