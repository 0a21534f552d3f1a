//! An application in virtual time, and the way out that a transport offers it.

use std::any::Any;

use timeous_core::{AduMeta, AduSeq, Advice, Fate, Instant, Rate};
use timeous_ring::Producer;

/// Why an ADU was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Everything that may wait does.
    #[error("the send queue is full: offer it again when something has left")]
    Full,
    /// It fits into no packet.
    #[error("{len} bytes do not fit into a packet: {max} do")]
    TooLarge {
        /// What was offered.
        len: usize,
        /// The most there can be.
        max: usize,
    },
    /// The connection has ended.
    #[error("the connection has ended: nothing leaves any more")]
    Closed,
}

/// What an application has of its transport.
pub trait Outlet {
    /// The number that the next ADU gets.
    fn next_seq(&self) -> AduSeq;

    /// Hands over an ADU, whole or not at all. Its number is given here; all else that `meta` says holds, when it was
    /// handed over among it.
    ///
    /// # Errors
    /// See [`Refused`].
    fn send(&mut self, meta: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused>;

    /// The packet ring, where there is one: to look over what is queued, pull it back, change or drop it.
    fn ring(&mut self) -> Option<&mut Producer>;

    /// The stream has this rate from now on, for a choice that advises it; others take no notice. Zero takes back what
    /// was said.
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }

    /// Nothing more will be handed over: the connection closes in order when all that was has had its fate.
    fn finish(&mut self);
}

/// An application: it is run when its time has come, and when it may have something to do.
///
/// It takes no time itself, and reads none but what it is given.
pub trait Application: Any + Send {
    /// Does what is to be done at `now`. Called when the transport is open, at
    /// [`poll_timeout`](Self::poll_timeout), and whenever something has left, arrived or got its fate.
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet);

    /// When it wants to be run next, which is after `now` of the last run; `None`: only if something happens.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Hears what became of an ADU.
    fn on_fate(&mut self, now: Instant, seq: AduSeq, fate: Fate) {
        let _ = (now, seq, fate);
    }

    /// Hears what its choice advises. It is run then, and says by [`Outlet::set_rate`] whether it follows.
    fn on_advice(&mut self, now: Instant, advice: &Advice) {
        let _ = (now, advice);
    }

    /// Gets what has arrived.
    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        let _ = (now, bytes);
    }
}

/// An application that only listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl Application for Sink {
    fn run(&mut self, _: Instant, _: &mut dyn Outlet) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
