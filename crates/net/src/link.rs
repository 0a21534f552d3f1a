//! One direction of a path: a queue before a transmitter of some rate, a propagation delay behind it, and loss.

pub mod loss;
pub mod queue;
pub mod trace;

mod flight;
mod transmitter;
mod verdict;

#[cfg(test)]
mod tests;

use std::fmt;

use timeous_core::{Duration, Instant, Rng};

use flight::Flight;
pub use loss::Loss;
use loss::LossProcess;
pub use queue::{Discipline, DropTail, Limit, Next, Waiting};
pub use trace::RateTrace;
pub use transmitter::Capacity;
use transmitter::Transmitter;
pub use verdict::{DropCause, Verdict};

/// What a link is like.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkConfig {
    /// How fast it sends.
    pub capacity: Capacity,
    /// How long a packet is under way once it has been sent.
    pub delay: Duration,
    /// How much may wait to be sent.
    pub queue: Limit,
    /// Which packets are lost whatever the queue holds.
    pub loss: Loss,
}

/// What a link has seen so far.
///
/// At any time `packets_in = packets_out + queue_drops + losses +` [`Link::queue_len`] `+` [`Link::in_flight`].
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
    /// Packets dropped by the queue.
    pub queue_drops: u64,
    /// Packets lost at random.
    pub losses: u64,
    /// The longest that a packet waited before its transmission began.
    pub max_queue_delay: Duration,
    /// The most packets that waited at once.
    pub max_queue_len: usize,
}

/// One direction of a path, in whatever time its driver keeps.
///
/// Loss strikes first, then the queue: a lost packet takes no room and no capacity (as with Linux's netem). What is
/// taken waits in the queue until the transmitter is free; the packet being transmitted is not in the queue. Packets
/// are delivered in order.
///
/// Time never goes back: a `now` before an earlier one counts as the earlier one. `P` is whatever the driver calls a
/// packet.
///
/// ```
/// use timeous_core::{Duration, Instant, Rate, Rng};
/// use timeous_net::link::{Capacity, Limit};
/// use timeous_net::{Link, LinkConfig, Verdict};
///
/// let config = LinkConfig {
///     capacity: Capacity::Fixed(Rate::from_kbps(800)),
///     delay: Duration::from_millis(40),
///     queue: Limit::Packets(30),
///     ..LinkConfig::default()
/// };
/// let mut link = Link::new(config, Rng::from_seed(1));
/// assert_eq!(link.handle_packet(Instant::ZERO, 1_000, "hello"), Verdict::Queued);
/// let due = Instant::ZERO + Duration::from_millis(10 + 40);
/// assert_eq!(link.poll_timeout(), Some(due));
/// assert_eq!(link.poll_deliver(due), Some((due, "hello")));
/// ```
pub struct Link<P> {
    loss: LossProcess,
    queue: Box<dyn Discipline<P> + Send>,
    transmitter: Transmitter,
    flight: Flight<P>,
    counters: Counters,
    now: Instant,
}

impl<P: Send + 'static> Link<P> {
    /// A link with a drop-tail queue of the limit in `config`. A rate trace begins at [`Instant::ZERO`].
    pub fn new(config: LinkConfig, rng: Rng) -> Self {
        let queue = DropTail::new(config.queue, config.capacity.mean_rate());
        Self::with_discipline(config, Box::new(queue), rng)
    }
}

impl<P> Link<P> {
    /// A link with a queue of another kind; the limit in `config` is not looked at.
    pub fn with_discipline(config: LinkConfig, queue: Box<dyn Discipline<P> + Send>, rng: Rng) -> Self {
        Self {
            loss: LossProcess::new(config.loss, rng),
            queue,
            transmitter: Transmitter::new(config.capacity),
            flight: Flight::new(config.delay),
            counters: Counters::default(),
            now: Instant::ZERO,
        }
    }

    /// Takes in a packet that is `len` bytes long on the link.
    pub fn handle_packet(&mut self, now: Instant, len: usize, packet: P) -> Verdict {
        self.advance(now);
        self.counters.packets_in += 1;
        self.counters.bytes_in += len as u64;
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

    /// When the next packet arrives at the far end; `None`: not before another one is handed in.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.flight.next_arrival()
    }

    /// The next packet that has arrived by `now`, and when it did. To be called until it gives `None`.
    pub fn poll_deliver(&mut self, now: Instant) -> Option<(Instant, P)> {
        self.advance(now);
        let (arrival, len, packet) = self.flight.land(self.now)?;
        self.counters.packets_out += 1;
        self.counters.bytes_out += len as u64;
        Some((arrival, packet))
    }

    /// What the link has seen so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many packets wait for transmission.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// How many bytes wait for transmission.
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// How many packets are being transmitted or under way.
    pub fn in_flight(&self) -> usize {
        self.flight.len()
    }

    fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.transmit();
    }

    /// Begins every transmission that is due, each at the very instant at which the one before it ended.
    fn transmit(&mut self) {
        while self.transmitter.free_at() <= self.now {
            let start = self.transmitter.free_at();
            match self.queue.dequeue(start) {
                Next::Send(Waiting { packet, len, since }) => {
                    self.counters.max_queue_delay = self.counters.max_queue_delay.max(start - since);
                    let departure = self.transmitter.send(len);
                    self.flight.launch(departure, len, packet);
                }
                Next::Drop(_) => self.counters.queue_drops += 1,
                Next::Empty => return,
            }
        }
    }
}

impl<P> fmt::Debug for Link<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("now", &self.now)
            .field("queue_len", &self.queue_len())
            .field("in_flight", &self.in_flight())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}
