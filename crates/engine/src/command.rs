//! What the holder of an engine asks of its thread.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::config::StreamConfig;
use crate::error::EngineError;
use crate::line::Line;
use crate::remote::Served;
use crate::stream::Stream;
use crate::waker::Waker;

/// The engine's own name for a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListenerId(pub(crate) u64);

pub(crate) enum Command {
    Connect {
        remote: SocketAddr,
        user: User,
        config: Box<StreamConfig>,
        reply: mpsc::Sender<Result<Made, EngineError>>,
    },
    Listen {
        local: SocketAddr,
        user: User,
        config: Box<StreamConfig>,
        incoming: Arc<Incoming>,
        reply: mpsc::Sender<ListenReply>,
    },
    /// Nobody waits for callers any more.
    StopListening(ListenerId),
    /// The engine is to end.
    Stop,
}

pub(crate) type Commands = Line<Command>;
pub(crate) type ListenReply = Result<(ListenerId, SocketAddr, PortLife), EngineError>;

/// Where the application of a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// In this process.
    Here,
    /// In another one.
    Elsewhere,
}

/// A stream for whom it was asked for.
#[derive(Debug)]
pub(crate) enum Made {
    Here(Stream),
    Elsewhere(Box<Offer>),
}

/// A stream for another process: what stays here, and what goes there ([`Stream::remote`]).
#[derive(Debug)]
pub struct Offer {
    /// The engine's side, to be looked after.
    pub served: Served,
    /// The packet ring: a sealed memfd.
    pub ring: OwnedFd,
    /// The application's end of the stream's socket.
    pub socket: OwnedFd,
    /// The UDP port that was opened for it, if one was.
    pub port: PortLife,
}

/// Tells whether a UDP port is still open: it outlives its streams for as long as a peer may want to hear that they are
/// closed, and takes a descriptor meanwhile.
#[derive(Clone, Debug, Default)]
pub struct PortLife(Weak<()>);

impl PortLife {
    pub(crate) fn of(life: &Arc<()>) -> Self {
        Self(Arc::downgrade(life))
    }

    /// Whether it is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// Connections that came in and were not accepted yet.
#[derive(Debug)]
pub(crate) struct Incoming {
    streams: Mutex<Vec<Made>>,
    pub(crate) waker: Waker,
}

impl Incoming {
    pub(crate) fn new() -> std::io::Result<Arc<Self>> {
        Ok(Arc::new(Self { streams: Mutex::default(), waker: Waker::new()? }))
    }

    pub(crate) fn push(&self, stream: Made) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).push(stream);
        self.waker.wake();
    }

    pub(crate) fn pop(&self) -> Option<Made> {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        (!streams.is_empty()).then(|| streams.remove(0))
    }
}
