//! What waits for the transmitter: the contract of a queue discipline, and drop-tail.

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
    /// Its length on the link, in bytes.
    pub len: usize,
    /// When it came in.
    pub since: Instant,
}

/// What a queue hands out next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<P> {
    /// This packet is transmitted now.
    Send(Waiting<P>),
    /// This packet was dropped on its way out; ask again.
    Drop(Waiting<P>),
    /// Nothing waits.
    Empty,
}

/// A queue discipline: what a link does with packets that cannot be transmitted at once.
///
/// Every packet passes through it, even if the transmitter is idle: it is then asked for it at the same instant. One
/// that marks packets instead of dropping them is written for a `P` that can be marked.
pub trait Discipline<P> {
    /// Takes in a packet, or refuses it.
    fn enqueue(&mut self, now: Instant, packet: Waiting<P>) -> Result<(), DropCause>;

    /// What comes out at `now`, the instant at which the transmitter is free. `now` never goes back.
    fn dequeue(&mut self, now: Instant) -> Next<P>;

    /// How many packets wait.
    fn len(&self) -> usize;

    /// How many bytes wait.
    fn bytes(&self) -> u64;

    /// Whether nothing waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many packets it has marked so far.
    fn marks(&self) -> u64 {
        0
    }
}

/// How much a drop-tail queue holds. The packet being transmitted does not count; an empty queue takes any packet, so
/// that no limit cuts the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many packets.
    Packets(usize),
    /// So many bytes.
    Bytes(u64),
    /// So many bytes as the link's (mean) rate carries in this time.
    Time(Duration),
}

impl Default for Limit {
    /// As long as Linux's `txqueuelen`.
    fn default() -> Self {
        Self::Packets(1_000)
    }
}

impl FromStr for Limit {
    type Err = UnitError;

    /// `100ms`, `30p` or `64k`: time, packets or bytes.
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

/// First in, first out; what finds no room is dropped.
#[derive(Clone, Debug)]
pub struct DropTail<P> {
    waiting: VecDeque<Waiting<P>>,
    bytes: u64,
    max_packets: usize,
    max_bytes: u64,
}

impl<P> DropTail<P> {
    /// An empty queue before a transmitter of `rate` (`None`: one that never keeps a packet waiting).
    pub fn new(limit: Limit, rate: Option<Rate>) -> Self {
        let (max_packets, max_bytes) = match limit {
            Limit::Packets(packets) => (packets, u64::MAX),
            Limit::Bytes(bytes) => (usize::MAX, bytes),
            Limit::Time(time) => (usize::MAX, rate.map_or(u64::MAX, |rate| rate.bytes_in(time))),
        };
        Self { waiting: VecDeque::new(), bytes: 0, max_packets, max_bytes }
    }

    /// How much of the limit is taken, as a share.
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
