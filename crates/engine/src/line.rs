//! The way to the engine's thread: a queue, and a waker for who reads it.

use std::fmt;
use std::sync::mpsc;

use crate::waker::Waker;

/// One end of the way. Clones lead to the same place.
pub(crate) struct Line<T> {
    queue: mpsc::Sender<T>,
    waker: Waker,
}

impl<T> Line<T> {
    pub(crate) fn new(waker: Waker) -> (Self, mpsc::Receiver<T>) {
        let (queue, end) = mpsc::channel();
        (Self { queue, waker }, end)
    }

    /// `false` if the engine has ended.
    pub(crate) fn send(&self, what: T) -> bool {
        let sent = self.queue.send(what).is_ok();
        self.waker.wake();
        sent
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
