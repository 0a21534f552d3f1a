//! What a stream asks of the engine's thread.

use crate::line::Line;

/// The engine's own name for a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(pub(crate) u64);

/// It is about the stream that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// A ring that was empty has something in it.
    Notify(StreamId),
    /// To be closed when all has been sent.
    Finish(StreamId),
    /// Nobody holds it any more.
    Abandon(StreamId),
}

pub(crate) type Orders = Line<Order>;
