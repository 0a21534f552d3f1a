//! One direction of a path: a queue, a transmitter, a propagation delay, and impairments (loss, reordering,
//! duplication, jitter).

pub mod codel;
pub mod loss;
pub mod queue;
pub mod red;
pub mod trace;
pub mod variation;

mod flight;
mod kind;
mod mark;
mod packet_limit;
mod transmitter;
mod verdict;

#[cfg(test)]
mod tests;

use std::fmt;

use timeous_core::{Duration, Instant, Rate, Rng};

use std::collections::VecDeque;

pub use codel::{Codel, CodelConfig};
use flight::Flight;
pub use kind::QueueKind;
pub use loss::Loss;
use loss::LossProcess;
pub use mark::Markable;
pub use packet_limit::PacketLimit;
pub use queue::{Discipline, DropTail, Limit, Next, Waiting};
pub use red::{Red, RedConfig};
pub use trace::RateTrace;
pub use transmitter::Capacity;
use transmitter::Transmitter;
pub use variation::{Distribution, Jitter, Reorder};
pub use verdict::{DropCause, Verdict};

/// Properties of a link.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// Transmission rate.
    pub capacity: Capacity,
    /// Token bucket depth in bytes, sent at once after an idle time, as in Linux's tbf. Zero: none.
    pub burst: u64,
    /// Propagation delay: time from the end of the transmission to delivery.
    pub delay: Duration,
    /// Delay variation.
    pub jitter: Jitter,
    /// Queue limit.
    pub queue: Limit,
    /// Queue discipline.
    pub kind: QueueKind,
    /// Random loss, independent of the queue.
    pub loss: Loss,
    /// Reordering.
    pub reorder: Reorder,
    /// Share of packets that are duplicated; each copy is delayed independently.
    pub duplicate: f64,
    /// Size of the largest packet.
    pub packets: PacketLimit,
}

impl LinkConfig {
    /// Returns a link that only delays.
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// Limits the rate, with a queue before it.
    #[must_use]
    pub fn with_rate(self, rate: Rate, queue: Limit) -> Self {
        Self { capacity: Capacity::Fixed(rate), queue, ..self }
    }

    /// Loses packets at random.
    #[must_use]
    pub fn with_loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }
}

/// Counters of a link.
///
/// At any time `packets_in + duplicates = packets_out + queue_drops + losses +` [`Link::queue_len`] `+`
/// [`Link::in_flight`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets handed in.
    pub packets_in: u64,
    /// Bytes handed in.
    pub bytes_in: u64,
    /// Packets delivered.
    pub packets_out: u64,
    /// Bytes delivered.
    pub bytes_out: u64,
    /// Packets dropped by the queue (full, or early).
    pub queue_drops: u64,
    /// Packets lost at random, or as too large.
    pub losses: u64,
    /// Packets marked by the queue (ECN).
    pub marks: u64,
    /// Duplicates created.
    pub duplicates: u64,
    /// Packets delivered after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Longest queueing delay of a packet.
    pub max_queue_delay: Duration,
    /// Greatest number of packets queued.
    pub max_queue_len: usize,
}

/// One direction of a path, driven in virtual or real time.
///
/// Loss comes before the queue: a lost packet takes neither room nor capacity (as in Linux's netem). Other packets wait
/// in the queue until the transmitter is free; the packet in transmission is not in the queue. Afterwards packets may
/// be duplicated or reordered, if configured; otherwise delivery is in order.
///
/// Time never goes back: an earlier `now` counts as the latest one. `P` is the driver's packet type.
///
/// ```
/// use timeous_core::{Duration, Ecn, Instant, Rate, Rng};
/// use timeous_net::link::{Capacity, Limit};
/// use timeous_net::sim::{Packet, Protocol};
/// use timeous_net::{Link, LinkConfig, Verdict};
///
/// let config = LinkConfig {
///     capacity: Capacity::Fixed(Rate::from_kbps(800)),
///     delay: Duration::from_millis(40),
///     queue: Limit::Packets(30),
///     ..LinkConfig::default()
/// };
/// let mut link = Link::new(config, Rng::from_seed(1));
/// let (from, to) = ("10.0.0.1:1000".parse().unwrap(), "10.0.0.2:2000".parse().unwrap());
/// let packet = Packet::new(Protocol::Udp, from, to, Ecn::NotEct, vec![0; 972]);
/// assert_eq!(link.handle_packet(Instant::ZERO, packet.wire_len(), packet.clone()), Verdict::Queued);
/// let due = Instant::ZERO + Duration::from_millis(10 + 40);
/// assert_eq!(link.poll_timeout(), Some(due));
/// assert_eq!(link.poll_deliver(due), Some((due, packet)));
/// ```
pub struct Link<P> {
    packets: PacketLimit,
    loss: LossProcess,
    queue: Box<dyn Discipline<P> + Send>,
    transmitter: Transmitter,
    flight: Flight<P>,
    counters: Counters,
    /// Packets dropped on the way out of the queue, if recorded.
    drops: Option<VecDeque<(Instant, P)>>,
    now: Instant,
}

impl<P: Markable + Clone + Send + 'static> Link<P> {
    /// Creates a link with the queue that `config` describes. A rate trace begins at [`Instant::ZERO`].
    pub fn new(config: LinkConfig, rng: Rng) -> Self {
        // A separate generator, so that losses do not depend on the queue discipline.
        let queue_rng = rng.clone().fork();
        let queue = config.kind.build(config.queue, config.capacity.mean_rate(), queue_rng);
        Self::with_discipline(config, queue, rng)
    }
}

impl<P: Clone> Link<P> {
    /// Creates a link with another queue discipline; limit and kind in `config` are ignored.
    pub fn with_discipline(config: LinkConfig, queue: Box<dyn Discipline<P> + Send>, rng: Rng) -> Self {
        let LinkConfig { capacity, burst, delay, jitter, loss, reorder, duplicate, packets, .. } = config;
        let mut aside = rng.clone();
        // The first fork is the queue's.
        let (_, flight_rng) = (aside.fork(), aside.fork());
        Self {
            packets,
            loss: LossProcess::new(loss, rng),
            queue,
            transmitter: Transmitter::new(capacity, burst),
            flight: Flight::new(delay, jitter, reorder, duplicate, flight_rng),
            counters: Counters::default(),
            drops: None,
            now: Instant::ZERO,
        }
    }

    /// Takes a packet of `len` bytes on the link.
    pub fn handle_packet(&mut self, now: Instant, len: usize, packet: P) -> Verdict {
        self.advance(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += len as u64;
        if self.packets.excludes(self.now, len) {
            self.counters.losses += 1;
            return Verdict::Dropped(DropCause::TooLarge);
        }
        if self.loss.strikes() {
            self.counters.losses += 1;
            return Verdict::Dropped(DropCause::Loss);
        }
        self.transmitter.idle_until(self.now);
        if let Err(cause) = self.queue.enqueue(self.now, Waiting { packet, len, since: self.now }) {
            self.counters.queue_drops += 1;
            return Verdict::Dropped(cause);
        }
        self.transmit();
        self.counters.max_queue_len = self.counters.max_queue_len.max(self.queue.len());
        Verdict::Queued
    }

    /// Time of the next delivery or, if packets can overtake, of the next departure if that is earlier; `None`: nothing
    /// is due until another packet comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let arrival = self.flight.next_arrival();
        if !self.flight.reorders() || self.queue.is_empty() {
            return arrival;
        }
        let sent = Some(self.transmitter.free_at()).filter(|at| *at < Instant::FAR_FUTURE);
        arrival.into_iter().chain(sent).min()
    }

    /// Returns the next packet delivered by `now`, with its arrival time. To be called until it returns `None`.
    pub fn poll_deliver(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.advance(now);
        let (landed, overtaken) = self.flight.land(self.now)?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += landed.len as u64;
        self.counters.reordered += u64::from(overtaken);
        Some((landed.arrival, landed.packet))
    }

    /// Starts recording packets dropped on the way out of the queue, for [`poll_drop`](Self::poll_drop).
    pub fn keep_drops(&mut self) {
        self.drops.get_or_insert_default();
    }

    /// Returns the next packet dropped on the way out of the queue, with the time, if recorded.
    pub fn poll_drop(&mut self) -> Option<(Instant, P)> {
        self.drops.as_mut()?.pop_front()
    }

    /// Counters so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Packets queued for transmission.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// Bytes queued for transmission.
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Packets in transmission or in flight.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    /// Advances time.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.transmit();
    }

    /// Starts every transmission that is due, each at the exact end of the one before.
    fn transmit(&mut self) {
        while self.transmitter.free_at() <= self.now {
            let start = self.transmitter.free_at();
            match self.queue.dequeue(start) {
                Next::Send(Waiting { packet, len, since }) => {
                    self.counters.max_queue_delay = self.counters.max_queue_delay.max(start - since);
                    let departure = self.transmitter.send(len);
                    self.counters.duplicates += u64::from(self.flight.launch(departure, len, packet));
                }
                Next::Drop(Waiting { packet, .. }) => {
                    self.counters.queue_drops += 1;
                    if let Some(drops) = &mut self.drops {
                        drops.push_back((start, packet));
                    }
                }
                Next::Empty => break,
            }
        }
        self.counters.marks = self.queue.marks();
    }
}

impl<P> fmt::Debug for Link<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("now", &self.now)
            .field("queue_len", &self.queue.len())
            .field("in_flight", &self.flight.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
