//! Commands to the engine's thread.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::config::StreamConfig;
use crate::error::EngineError;
use crate::line::Line;
use crate::port_group::PortGroup;
use crate::remote::Served;
use crate::stream::Stream;
use crate::waker::Waker;

/// Identifier of a listener within the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListenerId(pub(crate) u64);

pub(crate) enum Command {
    Connect {
        remote: SocketAddr,
        user: User,
        config: Box<StreamConfig>,
        reply: mpsc::Sender<Result<Made, EngineError>>,
    },
    /// Runs a stream over a TCP connection of the application's.
    Adopt { socket: TcpStream, config: Box<StreamConfig>, reply: mpsc::Sender<Result<Made, EngineError>> },
    Listen {
        local: SocketAddr,
        user: User,
        config: Box<StreamConfig>,
        incoming: Arc<Incoming>,
        /// Workers that share the UDP port, and this one's place among them.
        group: Option<(Arc<PortGroup>, usize)>,
        reply: mpsc::Sender<ListenReply>,
    },
    /// Stops listening: no more callers are accepted, and those in the accept queue are refused.
    StopListening(ListenerId, Arc<Incoming>),
    /// Stops the engine.
    Stop,
}

pub(crate) type Commands = Line<Command>;
pub(crate) type ListenReply = Result<(ListenerId, SocketAddr, PortLife), EngineError>;

/// Location of a stream's application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// In this process.
    Here,
    /// In another one.
    Elsewhere,
}

/// A new stream, in the form its application needs.
#[derive(Debug)]
pub(crate) enum Made {
    Here(Box<Stream>),
    Elsewhere(Box<Offer>),
}

impl Made {
    /// Resets its connection.
    pub(crate) fn refuse(self) {
        match self {
            Self::Here(stream) => stream.refuse(),
            Self::Elsewhere(offer) => offer.served.refuse(),
        }
    }
}

/// A stream for another process: the engine's side, and the parts to hand over ([`Stream::remote`]).
#[derive(Debug)]
pub struct Offer {
    /// The engine's side, to be served by the caller.
    pub served: Served,
    /// The packet ring: a sealed memfd.
    pub ring: OwnedFd,
    /// The application's end of the control socket.
    pub socket: OwnedFd,
    /// Lifetime of the UDP port that was opened for it, if one was.
    pub port: PortLife,
}

/// Handle that tells whether a UDP port is still open: a port outlives its streams while a peer may still ask for their
/// close, and holds a descriptor meanwhile.
#[derive(Clone, Debug, Default)]
pub struct PortLife(Weak<()>);

impl PortLife {
    pub(crate) fn of(life: &Arc<()>) -> Self {
        Self(Arc::downgrade(life))
    }

    /// Returns whether the port is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Accept queue: incoming connections that were not accepted yet, and the room for more.
#[derive(Debug)]
pub(crate) struct Incoming {
    callers: Mutex<Callers>,
    pub(crate) waker: Waker,
}

#[derive(Debug)]
struct Callers {
    streams: VecDeque<Made>,
    /// Callers that may still connect; `None`: any number.
    room: Option<usize>,
}

impl Callers {
    fn room(&self) -> usize {
        self.room.unwrap_or(usize::MAX).min(BACKLOG.saturating_sub(self.streams.len()))
    }
}

/// Maximum number of connections waiting to be accepted, as TCP's SOMAXCONN was before Linux 5.4. Chosen by us: each
/// holds a packet ring already, so that a higher value takes memory.
const BACKLOG: usize = 128;

impl Incoming {
    pub(crate) fn new(room: Option<usize>) -> std::io::Result<Arc<Self>> {
        let callers = Mutex::new(Callers { streams: VecDeque::new(), room });
        Ok(Arc::new(Self { callers, waker: Waker::new()? }))
    }

    pub(crate) fn set_room(&self, room: Option<usize>) {
        self.callers().room = room;
    }

    /// Returns the number of callers that may connect now.
    pub(crate) fn room(&self) -> usize {
        self.callers().room()
    }

    /// Queues an incoming connection, which takes one place; returns it if there is none.
    pub(crate) fn push(&self, stream: Made) -> Result<(), Made> {
        let mut callers = self.callers();
        // Another worker may have taken the last place.
        if callers.room() == 0 {
            return Err(stream);
        }
        callers.streams.push_back(stream);
        callers.room = callers.room.map(|room| room.saturating_sub(1));
        drop(callers);
        self.waker.wake();
        Ok(())
    }

    pub(crate) fn pop(&self) -> Option<Made> {
        self.callers().streams.pop_front()
    }

    /// Resets the connections that were not accepted, and has no room for others.
    pub(crate) fn refuse_all(&self) {
        let streams =
            std::mem::replace(&mut *self.callers(), Callers { streams: VecDeque::new(), room: Some(0) }).streams;
        streams.into_iter().for_each(Made::refuse);
    }

    fn callers(&self) -> MutexGuard<'_, Callers> {
        self.callers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
