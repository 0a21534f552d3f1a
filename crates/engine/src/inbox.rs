//! Bounded receive queue of an application. A datagram that exceeds the capacity drops the oldest ones.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use timeous_core::{Instant, SubStream};

/// A received datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The payload.
    pub bytes: Vec<u8>,
    /// Arrival time.
    pub at: Instant,
    /// Sub-stream of a datagram received over TCP; else zero.
    pub substream: SubStream,
}

/// Capacity in bytes. Chosen by us: a higher value takes more memory; a lower one refuses packets of a slow reader
/// sooner.
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
    /// Creates an inbox of `capacity` bytes.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { waiting: Mutex::default(), capacity }
    }

    /// Adds a datagram and returns the number of older ones dropped for it.
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

    /// Returns the free capacity in bytes, and whether more than half is used: then the peer should not increase its rate.
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

    /// Locks the queue; a lock poisoned by a reader is usable, since every change is complete before anything can panic.
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
