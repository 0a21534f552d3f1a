//! A client of the daemon: its process, its socket, its queues.

use std::os::fd::OwnedFd;

use timeous_cm::ClientId;
use timeous_core::{Duration, Instant};
use timeous_ipc::messages::{Answer, Failure, FromDaemon};

use crate::exchange::Exchange;
use crate::poller::Interest;
use crate::streams::Owner;
use crate::wire::Wire;

/// How long a client may take to say hello.
const GREETING: Duration = Duration::from_secs(5);
/// How long a client may leave its socket full: a call's answer waits there.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) owner: Owner,
    pub(crate) pid: i32,
    /// What it calls itself.
    pub(crate) name: String,
    /// As the manager knows it.
    pub(crate) cm: ClientId,
    pub(crate) wire: Wire,
    /// Once it has said hello.
    pub(crate) exchange: Option<Exchange>,
    /// When it came in.
    since: Instant,
    /// Since when its socket has no room.
    blocked: Option<Instant>,
    /// What the poller watches its socket for.
    pub(crate) interest: Interest,
    /// Whether it is among those that have more to do.
    pub(crate) active: bool,
}

impl Client {
    pub(crate) fn new(now: Instant, owner: Owner, pid: i32, cm: ClientId, wire: Wire) -> Self {
        Self {
            owner,
            pid,
            name: String::new(),
            cm,
            wire,
            exchange: None,
            since: now,
            blocked: None,
            interest: Interest::Readable,
            active: false,
        }
    }

    /// The answer to a call.
    pub(crate) fn answer(&mut self, id: u32, result: Result<(Answer, Vec<OwnedFd>), Failure>) {
        let (result, descriptors) = match result {
            Ok((answer, descriptors)) => (Ok(answer), descriptors),
            Err(failure) => (Err(failure), Vec::new()),
        };
        self.wire.say(&FromDaemon::Answer { id, result }, descriptors);
    }

    /// What its socket is to be watched for.
    pub(crate) fn wants(&self) -> Interest {
        match (self.wire.is_full(), self.wire.is_blocked()) {
            (true, _) => Interest::Writable,
            (false, true) => Interest::Both,
            (false, false) => Interest::Readable,
        }
    }

    /// Whether it has been silent or deaf for too long. To be asked now and then.
    pub(crate) fn lapse(&mut self, now: Instant) -> Option<Lapse> {
        self.blocked = self.wire.is_blocked().then(|| self.blocked.unwrap_or(now));
        if self.exchange.is_none() && now >= self.since + GREETING {
            return Some(Lapse::Silent);
        }
        self.blocked.is_some_and(|since| now >= since + PATIENCE).then_some(Lapse::Deaf)
    }
}

/// What a client does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Lapse {
    #[error("it does not say hello")]
    Silent,
    #[error("it reads nothing of what it is told")]
    Deaf,
}
