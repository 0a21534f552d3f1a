//! Random early detection (Floyd & Jacobson 1993), gentle, with ECN (RFC 3168).

use timeous_core::{Duration, Instant, Rate, Rng};

use super::mark::{Markable, mark};
use super::queue::{Discipline, DropTail, Next, Waiting};
use super::verdict::DropCause;

/// Parameters of RED. Queue lengths are shares of the queue's limit, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedConfig {
    /// Minimum threshold of the mean queue length: below it no packet is marked.
    pub min: f64,
    /// Maximum threshold of the mean queue length: from it on packets are dropped, not marked (RFC 3168 §7), with a
    /// probability that rises from `max_p` to 1 at twice the threshold (`gentle`).
    pub max: f64,
    /// Marking probability just below `max`.
    pub max_p: f64,
    /// Weight of the current queue length in the mean (`w_q`).
    pub weight: f64,
    /// Whether ECN-capable packets are marked instead of dropped.
    pub ecn: bool,
}

impl Default for RedConfig {
    /// Floyd's recommendations: `max` three times `min`, `max_p` 10 %, weight 0.002; `max` is half of the limit, so
    /// that gentle RED reaches all of it.
    fn default() -> Self {
        Self { min: 1.0 / 6.0, max: 0.5, max_p: 0.1, weight: 0.002, ecn: true }
    }
}

/// Decision on an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Take,
    /// Mark, or drop if it is not ECN-capable.
    Notify,
    Drop,
}

/// A RED queue.
#[derive(Clone, Debug)]
pub struct Red<P> {
    config: RedConfig,
    queue: DropTail<P>,
    rate: Option<Rate>,
    rng: Rng,
    /// Exponentially weighted mean of the queue's occupancy at arrivals.
    mean: f64,
    /// Packets since the last mark or drop; `None` while the mean is below `min`.
    since_notified: Option<u64>,
    /// Start of the current idle period.
    empty_since: Option<Instant>,
    marks: u64,
}

impl<P> Red<P> {
    /// Creates a RED queue on top of `queue`, before a transmitter of `rate`.
    pub fn new(config: RedConfig, queue: DropTail<P>, rate: Option<Rate>, rng: Rng) -> Self {
        let empty_since = Some(Instant::ZERO);
        Self { config, queue, rate, rng, mean: 0.0, since_notified: None, empty_since, marks: 0 }
    }

    /// Mean queue length, as a share of the limit.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    #[cfg(test)]
    pub(super) fn config_mut(&mut self) -> &mut RedConfig {
        &mut self.config
    }

    /// Updates the mean at an arrival. An idle period counts as many arrivals at an empty queue as could have been
    /// transmitted.
    fn update_mean(&mut self, now: Instant, len: usize) {
        let kept = 1.0 - self.config.weight;
        match self.empty_since {
            None => self.mean = kept * self.mean + self.config.weight * self.queue.occupancy(),
            Some(since) => {
                let each = self.rate.map_or(Duration::ZERO, |rate| rate.time_for(len as u64)).as_nanos();
                let missed = (now - since).as_nanos().checked_div(each);
                self.mean *= missed.map_or(0.0, |missed| power(kept, missed));
                self.empty_since = Some(now);
            }
        }
    }

    fn decide(&mut self) -> Decision {
        let RedConfig { min, max, max_p, .. } = self.config;
        if self.mean < min {
            self.since_notified = None;
            return Decision::Take;
        }
        let (share, decision) = if self.mean < max {
            (max_p * (self.mean - min) / (max - min), Decision::Notify)
        } else {
            (max_p + (1.0 - max_p) * (self.mean - max) / max, Decision::Drop)
        };
        let count = self.since_notified.map_or(0, |count| count + 1);
        // Spreads marks evenly: the gap between two is uniform, not geometric (Floyd & Jacobson §7).
        let spread = 1.0 - count as f64 * share;
        if spread <= 0.0 || self.rng.chance(share / spread) {
            self.since_notified = Some(0);
            return decision;
        }
        self.since_notified = Some(count);
        Decision::Take
    }
}

impl<P: Markable> Discipline<P> for Red<P> {
    fn enqueue(&mut self, now: Instant, mut packet: Waiting<P>) -> Result<(), DropCause> {
        self.update_mean(now, packet.len);
        match self.decide() {
            Decision::Take => self.queue.enqueue(now, packet)?,
            Decision::Notify => {
                let marked = self.config.ecn && mark(&mut packet.packet);
                if !marked {
                    return Err(DropCause::Early);
                }
                self.queue.enqueue(now, packet)?;
                self.marks += 1;
            }
            Decision::Drop => return Err(DropCause::Early),
        }
        self.empty_since = None;
        Ok(())
    }

    fn dequeue(&mut self, now: Instant) -> Next<P> {
        let next = self.queue.dequeue(now);
        if self.queue.is_empty() && self.empty_since.is_none() {
            self.empty_since = Some(now);
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

/// `base` to the power of `exponent`, by multiplication: identical on every machine, unlike `powf`.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}
