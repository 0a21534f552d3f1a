//! A client of the daemon: its process, its socket, its queues.

use std::os::fd::OwnedFd;

use timeous_cm::ClientId;
use timeous_core::{Duration, Instant};
use timeous_ipc::messages::{Answer, Failure, FromDaemon};

use crate::exchange::Exchange;
use crate::poller::Interest;
use crate::sealing::CredentialParts;
use crate::streams::Owner;
use crate::wire::Wire;

/// Timeout for a client's hello.
const GREETING: Duration = Duration::from_secs(5);
/// Maximum time for which a client may leave its socket full: answers wait there.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) owner: Owner,
    pub(crate) pid: i32,
    /// Name, as the client gave it.
    pub(crate) name: String,
    /// Identifier in the Congestion Manager.
    pub(crate) cm: ClientId,
    pub(crate) wire: Wire,
    /// Queues, after the hello.
    pub(crate) exchange: Option<Exchange>,
    /// Credential for its next stream.
    pub(crate) credential: CredentialParts,
    /// Connection time.
    since: Instant,
    /// Since when its socket has been full.
    blocked: Option<Instant>,
    /// Readiness for which its socket is polled.
    pub(crate) interest: Interest,
    /// Whether it is queued for another turn.
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
            credential: CredentialParts::default(),
            since: now,
            blocked: None,
            interest: Interest::Readable,
            active: false,
        }
    }

    /// Sends the answer to a call.
    pub(crate) fn answer(&mut self, id: u32, result: Result<(Answer, Vec<OwnedFd>), Failure>) {
        let (result, descriptors) = match result {
            Ok((answer, descriptors)) => (Ok(answer), descriptors),
            Err(failure) => (Err(failure), Vec::new()),
        };
        self.wire.send_or_queue(&FromDaemon::Answer { id, result }, descriptors);
    }

    /// Returns the readiness for which its socket has to be polled.
    pub(crate) fn wants(&self) -> Interest {
        match (self.wire.is_full(), self.wire.is_blocked()) {
            (true, _) => Interest::Writable,
            (false, true) => Interest::Both,
            (false, false) => Interest::Readable,
        }
    }

    /// Returns whether it has exceeded a timeout. Called periodically.
    pub(crate) fn lapse(&mut self, now: Instant) -> Option<ExceededTimeout> {
        self.blocked = self.wire.is_blocked().then(|| self.blocked.unwrap_or(now));
        if self.exchange.is_none() && now >= self.since + GREETING {
            return Some(ExceededTimeout::Silent);
        }
        self.blocked.is_some_and(|since| now >= since + PATIENCE).then_some(ExceededTimeout::Deaf)
    }
}

/// Timeout that a client has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExceededTimeout {
    #[error("it does not say hello")]
    Silent,
    #[error("it reads nothing of what it is told")]
    Deaf,
}
