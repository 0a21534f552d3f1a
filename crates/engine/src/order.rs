//! What a stream asks of the engine's thread.

use timeous_core::Rate;

use crate::line::Line;

/// The engine's own name for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u64);

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A ring that was empty has something in it.
    Notify,
    /// To be closed when all has been sent.
    Finish,
    /// Nobody reads any more what comes.
    Ignore,
    /// Nobody holds it any more.
    Abandon,
    /// It came in and is not wanted: the caller is told that this end is busy.
    Refuse,
    /// Somebody wants to know how it stands.
    Tell,
    /// The source has this rate.
    Rate(Rate),
}

/// With the stream that it is about.
pub(crate) type Orders = Line<(StreamId, Order)>;
