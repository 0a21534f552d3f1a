//! Applications in virtual time, and the interface through which they send.

use std::any::Any;

use timeous_core::{AduMeta, AduSeq, Advice, Fate, Instant, Rate};
use timeous_ring::{Index, Producer};

/// Reason why an ADU was not accepted. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The send queue is full.
    #[error("the send queue is full: offer it again when something has left")]
    Full,
    /// The ADU exceeds the maximum payload of a packet.
    #[error("{len} bytes do not fit into a packet: {max} do")]
    TooLarge {
        /// Length of the ADU.
        len: usize,
        /// Maximum length.
        max: usize,
    },
    /// The connection has ended.
    #[error("the connection has ended: nothing leaves any more")]
    Closed,
}

/// Interface of a transport for its application.
pub trait Outlet {
    /// Returns the number of the next ADU.
    fn next_seq(&self) -> AduSeq;

    /// Hands over an ADU, whole or not at all. Its number is assigned here; all other fields of `meta` are kept,
    /// including the enqueue time.
    ///
    /// # Errors
    /// See [`Refused`].
    fn send(&mut self, meta: AduMeta, bytes: &[u8]) -> Result<AduSeq, Refused>;

    /// Returns the packet ring, where there is one: to inspect queued packets, withdraw, change or drop them.
    fn ring(&mut self) -> Option<&mut Producer>;

    /// Sends an ADU in the place of the queued packet `index`, which is withdrawn. `None`, without effect, if that packet has left
    /// or there is no packet ring.
    ///
    /// # Errors
    /// See [`Refused`].
    fn rewrite(&mut self, index: Index, meta: AduMeta, bytes: &[u8]) -> Result<Option<AduSeq>, Refused> {
        let _ = (index, meta, bytes);
        Ok(None)
    }

    /// Sets the stream's rate, for a late choice that advises the application; others ignore it. Zero means unknown.
    fn set_rate(&mut self, rate: Rate) {
        let _ = rate;
    }

    /// Declares the end of the stream: the connection closes when the fate of every ADU is known.
    fn finish(&mut self);
}

/// An application: run when its timer is due, and when it may have something to do.
///
/// Running takes no virtual time, and the application reads no clock but `now`.
pub trait Application: Any + Send {
    /// Runs the application at `now`. Called when the transport opens, at [`poll_timeout`](Self::poll_timeout), and
    /// after each transmission, arrival or known fate.
    fn run(&mut self, now: Instant, outlet: &mut dyn Outlet);

    /// Returns when it wants to be run next, after `now` of the last run; `None`: only on an event.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Called when the fate of an ADU is known.
    fn on_fate(&mut self, now: Instant, seq: AduSeq, fate: Fate) {
        let _ = (now, seq, fate);
    }

    /// Called with advice of the late choice. The application is run afterwards, and accepts a rate by
    /// [`Outlet::set_rate`].
    fn on_advice(&mut self, now: Instant, advice: &Advice) {
        let _ = (now, advice);
    }

    /// Called with received data.
    fn on_received(&mut self, now: Instant, bytes: &[u8]) {
        let _ = (now, bytes);
    }
}

/// An application that only receives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl Application for Sink {
    fn run(&mut self, _: Instant, _: &mut dyn Outlet) {}

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}
