//! Controlled delay (CoDel, RFC 8289; Nichols & Jacobson 2012), with the parameters of RFC 8290 §5.2 and ECN.

use timeous_core::{Duration, Instant, Rate};

use super::mark::{Markable, mark};
use super::queue::{Discipline, DropTail, Next, Waiting};
use super::verdict::DropCause;

/// Packet size in bytes for the lower bound of the target: its transmission time (RFC 8290 §5.2.2).
const FULL_PACKET: u64 = 1_500;
/// Number of intervals within which a new dropping state resumes the previous drop rate (pseudocode of RFC 8289 §5).
const RESUME_INTERVALS: u64 = 16;

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelConfig {
    /// Target: acceptable minimum queueing delay (RFC 8290 §5.2.2).
    pub target: Duration,
    /// Interval: time for which the delay must stay above the target, about the longest round trip (RFC 8290 §5.2.1).
    pub interval: Duration,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for CodelConfig {
    fn default() -> Self {
        Self { target: Duration::from_millis(5), interval: Duration::from_millis(100), ecn: true }
    }
}

/// A CoDel queue.
#[derive(Clone, Debug)]
pub struct Codel<P> {
    config: CodelConfig,
    queue: DropTail<P>,
    /// Largest packet seen: a queue no larger than it is not a standing queue.
    max_packet: u64,
    /// Time at which the delay will have been above the target for an interval; `None` while it is below.
    above_until: Option<Instant>,
    dropping: bool,
    drop_next: Instant,
    /// Packets dropped or marked in this dropping state, and in the previous one when this began.
    count: u64,
    last_count: u64,
    /// Whether the last packet was dropped in a dropping state, so that the next drop time must be computed.
    just_dropped: bool,
    marks: u64,
}

impl<P> Codel<P> {
    /// Creates a CoDel queue on top of `queue`, before a transmitter of `rate`.
    pub fn new(mut config: CodelConfig, queue: DropTail<P>, rate: Option<Rate>) -> Self {
        let one = rate.filter(|rate| *rate > Rate::ZERO).map_or(Duration::ZERO, |rate| rate.time_for(FULL_PACKET));
        config.target = config.target.max(one);
        Self {
            config,
            queue,
            max_packet: 0,
            above_until: None,
            dropping: false,
            drop_next: Instant::ZERO,
            count: 0,
            last_count: 0,
            just_dropped: false,
            marks: 0,
        }
    }

    /// Whether the delay of this packet, the first of the queue, and of all before it was above the target for an
    /// interval.
    fn may_drop(&mut self, now: Instant, packet: &Waiting<P>) -> bool {
        if now - packet.since < self.config.target || self.queue.bytes() <= self.max_packet {
            self.above_until = None;
            return false;
        }
        let until = *self.above_until.get_or_insert(now + self.config.interval);
        // If it was just set, it lies in the future.
        now >= until
    }

    /// Computes the next drop time: drops become denser with the square root of their number, which reduces TCP's rate
    /// linearly.
    fn control_law(&self, from: Instant) -> Instant {
        let nanos = self.config.interval.as_nanos() as f64 / (self.count.max(1) as f64).sqrt();
        from + Duration::from_nanos(nanos as u64)
    }

    /// Enters the dropping state.
    fn begin_round(&mut self, now: Instant) {
        let before = self.count - self.last_count;
        let recent = now - self.drop_next < self.config.interval * RESUME_INTERVALS;
        self.dropping = true;
        self.count = if before > 1 && recent { before } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
    }
}

impl<P: Markable> Codel<P> {
    /// Signals congestion by this packet: marks it, or else drops it.
    fn notify(&mut self, mut packet: Waiting<P>) -> Next<P> {
        if self.config.ecn && mark(&mut packet.packet) {
            self.marks += 1;
            return Next::Send(packet);
        }
        Next::Drop(packet)
    }
}

impl<P: Markable> Discipline<P> for Codel<P> {
    fn enqueue(&mut self, now: Instant, packet: Waiting<P>) -> Result<(), DropCause> {
        self.max_packet = self.max_packet.max(packet.len as u64);
        self.queue.enqueue(now, packet)
    }

    fn dequeue(&mut self, now: Instant) -> Next<P> {
        let just_dropped = std::mem::take(&mut self.just_dropped);
        let Next::Send(packet) = self.queue.dequeue(now) else {
            self.above_until = None;
            self.dropping = false;
            return Next::Empty;
        };
        if !self.may_drop(now, &packet) {
            self.dropping = false;
            return Next::Send(packet);
        }
        if !self.dropping {
            self.begin_round(now);
            return self.notify(packet);
        }
        if just_dropped {
            self.drop_next = self.control_law(self.drop_next);
        }
        if now < self.drop_next {
            return Next::Send(packet);
        }
        self.count += 1;
        let next = self.notify(packet);
        match next {
            Next::Drop(_) => self.just_dropped = true,
            _ => self.drop_next = self.control_law(self.drop_next),
        }
        next
    }

    fn len(&self) -> usize {
        self.queue.len()
    }

    fn bytes(&self) -> u64 {
        self.queue.bytes()
    }

    fn marks(&self) -> u64 {
        self.marks
    }
}
