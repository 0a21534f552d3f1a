//! Readiness polling for the daemon's thread (epoll).

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use timeous_core::Duration;

/// Owner of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The listening socket.
    ListeningSocket,
    /// The waker, signalled by other threads.
    Waker,
    /// A client's socket.
    Client(u64),
    /// A client's bell.
    Bell(u64),
    /// A stream's socket.
    Stream(u64),
    /// A stream's bell.
    StreamBell(u64),
    /// A listening port for streams.
    Callers(u64),
}

const KIND: u32 = 60;

impl Token {
    fn word(self) -> u64 {
        let (kind, id) = match self {
            Self::ListeningSocket => (0, 0),
            Self::Waker => (1, 0),
            Self::Client(id) => (2, id),
            Self::Bell(id) => (3, id),
            Self::Stream(id) => (4, id),
            Self::StreamBell(id) => (5, id),
            Self::Callers(id) => (6, id),
        };
        kind << KIND | id
    }

    fn from_word(word: u64) -> Self {
        let id = word & ((1 << KIND) - 1);
        match word >> KIND {
            0 => Self::ListeningSocket,
            1 => Self::Waker,
            2 => Self::Client(id),
            3 => Self::Bell(id),
            4 => Self::Stream(id),
            5 => Self::StreamBell(id),
            _ => Self::Callers(id),
        }
    }
}

/// Readiness for which a descriptor is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Readable.
    Readable,
    /// Readable or writable.
    Both,
    /// Writable only: it is not read for now.
    Writable,
    /// Each signal (edge-triggered), without reading it.
    Rung,
}

impl Interest {
    fn flags(self) -> EventFlags {
        match self {
            Self::Readable => EventFlags::IN,
            Self::Both => EventFlags::IN | EventFlags::OUT,
            Self::Writable => EventFlags::OUT,
            Self::Rung => EventFlags::IN | EventFlags::ET,
        }
    }
}

/// Maximum number of ready descriptors per call.
const AT_ONCE: usize = 256;

#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)? })
    }

    pub(crate) fn watch(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token.word()), interest.flags())?)
    }

    pub(crate) fn change(&self, fd: impl AsFd, token: Token, interest: Interest) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, fd, EventData::new_u64(token.word()), interest.flags())?)
    }

    /// Stops polling a descriptor. Required before closing one that another process has a copy of: epoll would keep it.
    pub(crate) fn forget(&self, fd: impl AsFd) {
        if let Err(error) = epoll::delete(&self.epoll, fd) {
            tracing::debug!(%error, "a descriptor was not watched");
        }
    }

    /// Returns the owners of ready descriptors. Waits for one, but not longer than `limit`.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> io::Result<Vec<Token>> {
        const NANOS: u64 = 1_000_000_000;
        let timeout = limit.map(Duration::as_nanos);
        let timeout = timeout.map(|ns| Timespec { tv_sec: (ns / NANOS) as i64, tv_nsec: (ns % NANOS) as _ });
        let mut events = [const { MaybeUninit::<Event>::uninit() }; AT_ONCE];
        match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((ready, _)) => Ok(ready.iter().map(|event| Token::from_word(event.data.u64())).collect()),
            Err(rustix::io::Errno::INTR) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }
}
