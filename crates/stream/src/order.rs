//! Requests of a stream's application to the carrier that runs the stream.

use timeous_core::Rate;

/// Identifier of a stream within its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
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
