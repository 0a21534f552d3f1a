//! Connections that an agent opens, and their times.

use std::any::Any;
use std::net::SocketAddr;

use timeous_core::Instant;

use super::feed::Feed;

/// Result of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether the connection was closed in order, with everything acknowledged.
    pub complete: bool,
}

/// Opens connections, one after the other or in parallel.
pub trait Dialer: Any + Send {
    /// Returns the sending side of connection number `call`, if one is due at `now`; polled until there is none.
    fn poll_call(&mut self, now: Instant, call: u64) -> Option<Feed>;

    /// Notes the end of a connection.
    fn on_ended(&mut self, now: Instant, call: u64, ended: Ended);

    /// Returns when the next connection is due.
    fn poll_timeout(&self) -> Option<Instant>;
}

/// A connection to open.
pub(super) struct Call {
    pub(super) remote: SocketAddr,
    pub(super) number: u64,
    pub(super) feed: Feed,
}

/// The connections that an agent opens: none, one, or as its dialer decides.
#[derive(Default)]
pub(super) struct Calls {
    remote: Option<SocketAddr>,
    once: Option<(Instant, Feed)>,
    dialer: Option<Box<dyn Dialer>>,
    next: u64,
}

impl Calls {
    pub(super) fn once(remote: SocketAddr, start: Instant, feed: Feed) -> Self {
        Self { remote: Some(remote), once: Some((start, feed)), ..Self::default() }
    }

    pub(super) fn by(remote: SocketAddr, dialer: Box<dyn Dialer>) -> Self {
        Self { remote: Some(remote), dialer: Some(dialer), ..Self::default() }
    }

    /// Returns the next connection to open now.
    pub(super) fn next(&mut self, now: Instant) -> Option<Call> {
        let remote = self.remote?;
        let feed = match &mut self.dialer {
            Some(dialer) => dialer.poll_call(now, self.next)?,
            None => self.once.take_if(|(start, _)| *start <= now)?.1,
        };
        self.next += 1;
        Some(Call { remote, number: self.next - 1, feed })
    }

    pub(super) fn ended(&mut self, now: Instant, call: u64, ended: Ended) {
        if let Some(dialer) = &mut self.dialer {
            dialer.on_ended(now, call, ended);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let once = self.once.as_ref().map(|(start, _)| *start);
        once.or_else(|| self.dialer.as_ref()?.poll_timeout())
    }

    pub(super) fn dialer(&self) -> Option<&dyn Any> {
        self.dialer.as_deref().map(|dialer| dialer as &dyn Any)
    }
}
