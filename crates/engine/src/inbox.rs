//! What came for an application and waits to be read: bounded. What a transport delivers beyond its room costs the oldest.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use timeous_core::{Instant, SubStream};

/// A datagram that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The payload.
    pub bytes: Vec<u8>,
    /// When it came in.
    pub at: Instant,
    /// Over TCP, the sub-stream on which it came; else zero.
    pub substream: SubStream,
}

/// How many bytes may wait to be read.
const CAPACITY: usize = 8 << 20;

#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    capacity: usize,
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new(CAPACITY)
    }
}

#[derive(Debug, Default)]
struct Waiting {
    queue: VecDeque<Received>,
    bytes: usize,
}

impl Inbox {
    /// An inbox in which `capacity` bytes may wait.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { waiting: Mutex::default(), capacity }
    }

    /// Adds what came; how many older datagrams had to go for it.
    pub(crate) fn push(&self, received: Received) -> u64 {
        let mut waiting = self.lock();
        waiting.bytes += received.bytes.len();
        waiting.queue.push_back(received);
        let mut gone = 0;
        while waiting.bytes > self.capacity {
            let Some(oldest) = waiting.queue.pop_front() else { break };
            waiting.bytes -= oldest.bytes.len();
            gone += 1;
        }
        gone
    }

    /// How many bytes fit in, and whether it is more than half full: then the peer had better not send more than now.
    pub(crate) fn room(&self) -> (usize, bool) {
        let bytes = self.lock().bytes;
        (self.capacity.saturating_sub(bytes), bytes > self.capacity / 2)
    }

    pub(crate) fn pop(&self) -> Option<Received> {
        let mut waiting = self.lock();
        let received = waiting.queue.pop_front()?;
        waiting.bytes -= received.bytes.len();
        Some(received)
    }

    /// A reader that panicked leaves the queue whole: every change of it is complete before anything can panic.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_full_it_says_so() {
        let inbox = Inbox::new(100);
        let push =
            |len| inbox.push(Received { bytes: vec![0; len], at: Instant::ZERO, substream: SubStream::default() });
        assert_eq!(inbox.room(), (100, false));
        push(50);
        assert_eq!(inbox.room(), (50, false));
        push(10);
        assert_eq!(inbox.room(), (40, true));
        inbox.pop();
        assert_eq!(inbox.room(), (90, false));
    }

    #[test]
    fn the_oldest_goes_when_nobody_reads() {
        let inbox = Inbox::default();
        let chunk =
            |n: u8| Received { bytes: vec![n; CAPACITY / 4], at: Instant::ZERO, substream: SubStream::default() };
        for n in 0..4 {
            assert_eq!(inbox.push(chunk(n)), 0);
        }
        assert_eq!(inbox.push(chunk(4)), 1);
        assert_eq!(inbox.pop().map(|r| r.bytes[0]), Some(1));
    }
}
