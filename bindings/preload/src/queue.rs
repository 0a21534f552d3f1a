//! Send queue of one destination: bounded in bytes and in time.

use std::collections::VecDeque;
use std::sync::Arc;

use timeous::core::{Duration, Instant, Rate};

use crate::datagram::Datagram;
use crate::outlet::Outlet;

/// Capacity of a queue in bytes before the path's rate is known: another initial window (RFC 6928). A higher value lets more
/// datagrams grow too old on a slow path.
const INITIAL_CAPACITY: usize = 14_600;
/// Bounds of the capacity in bytes: two datagrams of a full packet, and Linux's default send buffer (net.core.wmem_default).
const CAPACITIES: (usize, usize) = (3_000, 212_992);

/// Datagram in the queue.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) datagram: Datagram,
    /// Time of the program's call.
    at: Instant,
}

/// Datagrams to one destination, oldest first.
#[derive(Debug)]
pub(crate) struct SendQueue {
    queue: VecDeque<Queued>,
    bytes: usize,
    capacity: usize,
    /// Maximum age of a datagram when it leaves.
    latency: Duration,
    /// Number of datagrams that were too old when their turn came.
    pub(crate) expired: u64,
    /// Number and bytes of datagrams that have left.
    pub(crate) sent: (u64, u64),
}

impl SendQueue {
    /// Creates an empty queue.
    pub(crate) fn new(latency: Duration) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, capacity: INITIAL_CAPACITY, latency, expired: 0, sent: (0, 0) }
    }

    /// Whether a datagram of `len` bytes has room. An empty queue always takes one.
    pub(crate) fn has_room(&self, len: usize) -> bool {
        self.queue.is_empty() || self.bytes + len <= self.capacity
    }

    /// Adds a datagram.
    pub(crate) fn push(&mut self, now: Instant, outlet: Arc<Outlet>, datagram: Datagram) {
        self.bytes += datagram.payload.len();
        self.queue.push_back(Queued { outlet, datagram, at: now });
    }

    /// Drops datagrams that are too old. Returns whether there were any.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        let before = self.expired;
        while self.expiry().is_some_and(|at| at < now) {
            self.expired += 1;
            self.take();
        }
        self.expired > before
    }

    fn take(&mut self) -> Option<Queued> {
        let first = self.queue.pop_front()?;
        self.bytes -= first.datagram.payload.len();
        Some(first)
    }

    /// Returns the datagram that leaves now: the oldest that is not too old.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<Queued> {
        self.expire(now);
        let next = self.take()?;
        self.sent = (self.sent.0 + 1, self.sent.1 + next.datagram.payload.len() as u64);
        Some(next)
    }

    /// Puts a datagram back for which the kernel had no room.
    pub(crate) fn put_back(&mut self, queued: Queued) {
        let len = queued.datagram.payload.len();
        self.sent = (self.sent.0 - 1, self.sent.1 - len as u64);
        self.bytes += len;
        self.queue.push_front(queued);
    }

    /// Time at which the oldest datagram is too old.
    pub(crate) fn expiry(&self) -> Option<Instant> {
        self.queue.front().map(|first| first.at + self.latency)
    }

    /// Number of datagrams.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Bounds the queue to what leaves at `rate` within half of the latency: a program that waits for room loses nothing.
    pub(crate) fn fit(&mut self, rate: Rate) {
        let bytes = usize::try_from(rate.bytes_in(self.latency / 2)).unwrap_or(usize::MAX);
        self.capacity = bytes.clamp(CAPACITIES.0, CAPACITIES.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn put(queue: &mut SendQueue, now: Instant, first: u8, len: usize) {
        let to = "192.0.2.1:9".parse().unwrap();
        let mut payload = vec![0; len].into_boxed_slice();
        payload[0] = first;
        queue.push(now, Arc::new(Outlet::new(-1, None)), Datagram { to, payload, control: Box::default(), flags: 0 });
    }

    #[test]
    fn what_is_too_old_at_its_turn_is_dropped_and_counted() {
        let mut queue = SendQueue::new(Duration::from_millis(100));
        put(&mut queue, at(0), 1, 500);
        put(&mut queue, at(50), 2, 500);
        assert_eq!(queue.expiry(), Some(at(100)));
        assert_eq!(queue.pop(at(120)).unwrap().datagram.payload[0], 2);
        assert_eq!((queue.expired, queue.sent), (1, (1, 500)));
        assert!(queue.pop(at(120)).is_none());
    }

    #[test]
    fn it_holds_what_leaves_within_half_of_the_latency() {
        let mut queue = SendQueue::new(Duration::from_millis(100));
        queue.fit(Rate::from_kbps(1_600));
        put(&mut queue, at(0), 1, 9_000);
        assert!(queue.has_room(1_000) && !queue.has_room(1_001), "10 000 bytes at 1.6 Mbit/s take 50 ms");
        queue.fit(Rate::from_bps(0));
        assert!(!queue.has_room(1));
        queue.pop(at(1));
        assert!(queue.has_room(60_000), "an empty one takes any");
        queue.fit(Rate::from_kbps(10_000_000));
        put(&mut queue, at(2), 1, 200_000);
        assert!(!queue.has_room(20_000));
    }

    #[test]
    fn a_datagram_without_room_in_the_kernel_keeps_its_place() {
        let mut queue = SendQueue::new(Duration::from_millis(100));
        put(&mut queue, at(0), 1, 500);
        put(&mut queue, at(0), 2, 500);
        let first = queue.pop(at(1)).unwrap();
        queue.put_back(first);
        assert_eq!((queue.len(), queue.sent), (2, (0, 0)));
        assert_eq!(queue.pop(at(1)).unwrap().datagram.payload[0], 1);
    }
}
