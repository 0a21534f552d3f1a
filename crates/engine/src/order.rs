//! Requests of a stream to the engine's thread.

use timeous_core::Rate;

use crate::line::Line;

/// Identifier of a stream within the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StreamId(pub(crate) u64);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// The ring was empty, and a packet was queued.
    Notify,
    /// Close the connection when everything has been sent.
    Finish,
    /// The application dropped the receiving half.
    Ignore,
    /// The application dropped the stream.
    Abandon,
    /// Refuse an incoming stream as busy.
    Refuse,
    /// Make a snapshot.
    Tell,
    /// The source's rate has changed.
    Rate(Rate),
}

/// Queue of requests, each with its stream.
pub(crate) type Orders = Line<(StreamId, Order)>;
