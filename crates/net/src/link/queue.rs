//! Queue disciplines: the interface, and drop-tail.

use std::collections::VecDeque;
use std::str::FromStr;

use timeous_core::units::{self, UnitError};
use timeous_core::{Duration, Instant, Rate};

use super::verdict::DropCause;

/// A packet in a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting<P> {
    /// The packet.
    pub packet: P,
    /// Length on the link, in bytes.
    pub len: usize,
    /// Arrival time in the queue.
    pub since: Instant,
}

/// Result of a dequeue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<P> {
    /// The packet to transmit now.
    Send(Waiting<P>),
    /// A packet dropped on the way out; dequeue again.
    Drop(Waiting<P>),
    /// The queue is empty.
    Empty,
}

/// A queue discipline: decides the order and the drops of packets that wait for the transmitter.
///
/// Every packet passes through it, even if the transmitter is idle, which then dequeues it at the same instant. A
/// discipline that marks packets is implemented for a `P` that can be marked.
pub trait Discipline<P> {
    /// Enqueues a packet, or drops it.
    fn enqueue(&mut self, now: Instant, packet: Waiting<P>) -> Result<(), DropCause>;

    /// Dequeues at `now`, when the transmitter is free. `now` never goes back.
    fn dequeue(&mut self, now: Instant) -> Next<P>;

    /// Packets queued.
    fn len(&self) -> usize;

    /// Bytes queued.
    fn bytes(&self) -> u64;

    /// Whether the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Packets marked so far.
    fn marks(&self) -> u64 {
        0
    }
}

/// Limit of a drop-tail queue. The packet in transmission does not count; an empty queue takes any packet, so that no
/// limit blocks the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Number of packets.
    Packets(usize),
    /// Number of bytes.
    Bytes(u64),
    /// Queueing time at the link's (mean) rate.
    Time(Duration),
}

impl Default for Limit {
    /// The default of Linux's `txqueuelen`.
    fn default() -> Self {
        Self::Packets(1_000)
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    /// Parses a time, packets or bytes: `100ms`, `30p` or `64k`.
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let wanted = "a queue limit such as 100ms, 30p (packets) or 64k (bytes)";
        if let Some(packets) = text.trim().strip_suffix('p') {
            let packets = packets.parse().map_err(|_| UnitError::new(text, wanted))?;
            return Ok(Self::Packets(packets));
        }
        if let Ok(time) = units::parse_duration(text) {
            return Ok(Self::Time(time));
        }
        units::parse_bytes(text).map(Self::Bytes).map_err(|_| UnitError::new(text, wanted))
    }
}

/// FIFO queue that drops arriving packets when full.
#[derive(Clone, Debug)]
pub struct DropTail<P> {
    waiting: VecDeque<Waiting<P>>,
    bytes: u64,
    max_packets: usize,
    max_bytes: u64,
}

impl<P> DropTail<P> {
    /// Creates an empty queue before a transmitter of `rate` (`None`: unlimited).
    pub fn new(limit: Limit, rate: Option<Rate>) -> Self {
        let (max_packets, max_bytes) = match limit {
            Limit::Packets(packets) => (packets, u64::MAX),
            Limit::Bytes(bytes) => (usize::MAX, bytes),
            Limit::Time(time) => (usize::MAX, rate.map_or(u64::MAX, |rate| rate.bytes_in(time))),
        };
        Self { waiting: VecDeque::new(), bytes: 0, max_packets, max_bytes }
    }

    /// Used share of the limit.
    pub(super) fn occupancy(&self) -> f64 {
        let packets = self.waiting.len() as f64 / self.max_packets.max(1) as f64;
        let bytes = self.bytes as f64 / self.max_bytes.max(1) as f64;
        packets.max(bytes)
    }

    fn has_room(&self, len: usize) -> bool {
        let fits = self.waiting.len() < self.max_packets && self.bytes.saturating_add(len as u64) <= self.max_bytes;
        fits || self.waiting.is_empty()
    }
}

impl<P> Discipline<P> for DropTail<P> {
    fn enqueue(&mut self, _: Instant, packet: Waiting<P>) -> Result<(), DropCause> {
        if !self.has_room(packet.len) {
            return Err(DropCause::QueueFull);
        }
        self.bytes += packet.len as u64;
        self.waiting.push_back(packet);
        Ok(())
    }

    fn dequeue(&mut self, _: Instant) -> Next<P> {
        match self.waiting.pop_front() {
            Some(packet) => {
                self.bytes -= packet.len as u64;
                Next::Send(packet)
            }
            None => Next::Empty,
        }
    }

    fn len(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}
