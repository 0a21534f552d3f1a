//! Queue to the engine's thread, with a waker for its reader.

use std::fmt;
use std::sync::mpsc;

use timeous_stream::{Order, StreamId};

use crate::waker::Waker;

/// Queue of requests, each with its stream.
pub(crate) type Orders = Line<(StreamId, Order)>;

/// The sending end. Clones share the queue.
pub(crate) struct Line<T> {
    queue: mpsc::Sender<T>,
    waker: Waker,
}

impl<T> Line<T> {
    pub(crate) fn new(waker: Waker) -> (Self, mpsc::Receiver<T>) {
        let (queue, end) = mpsc::channel();
        (Self { queue, waker }, end)
    }

    /// Returns `false` if the engine has ended.
    pub(crate) fn send(&self, what: T) -> bool {
        let sent = self.queue.send(what).is_ok();
        self.waker.wake();
        sent
    }

    /// Returns the reader's waker.
    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }
}

impl<T> Clone for Line<T> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), waker: self.waker.clone() }
    }
}

impl<T> fmt::Debug for Line<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").finish_non_exhaustive()
    }
}
