//! Seeded link in virtual time, for the tests of all transports: rate, delay, queue, loss, duplication, reordering, ECN marks.

use std::collections::BTreeMap;

use timeous_core::{Duration, Ecn, Instant, Rate, Rng};

/// Properties of a link.
#[derive(Clone, Debug)]
pub(crate) struct LinkConfig {
    pub(crate) delay: Duration,
    pub(crate) rate: Option<Rate>,
    /// Maximum queueing delay; a packet beyond it is dropped.
    pub(crate) queue: Duration,
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// Share of packets delayed by up to `delay` more.
    pub(crate) reorder: f64,
    /// Queueing delay from which ECN-capable packets are marked.
    pub(crate) mark_above: Option<Duration>,
    /// Size of the largest packet that passes, in bytes.
    pub(crate) largest: usize,
    /// Share of packets that are dropped of those longer than so many bytes.
    pub(crate) large_loss: (usize, f64),
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(20),
            rate: None,
            queue: Duration::MAX,
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            mark_above: None,
            largest: usize::MAX,
            large_loss: (usize::MAX, 0.0),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    rng: Rng,
    free_at: Instant,
    loses_next: bool,
    order: u64,
    in_flight: BTreeMap<(Instant, u64), (Vec<u8>, Ecn)>,
    pub(crate) sent: u64,
    pub(crate) dropped: u64,
    pub(crate) bytes: u64,
}

impl Link {
    pub(crate) fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            rng: Rng::from_seed(seed),
            free_at: Instant::ZERO,
            loses_next: false,
            order: 0,
            in_flight: BTreeMap::new(),
            sent: 0,
            dropped: 0,
            bytes: 0,
        }
    }

    /// Changes the link for later packets; those in flight are unaffected.
    pub(crate) fn become_like(&mut self, config: LinkConfig) {
        self.config = config;
    }

    pub(crate) fn send(&mut self, now: Instant, packet: &[u8], mut ecn: Ecn) {
        self.sent += 1;
        let start = self.free_at.max(now);
        if std::mem::take(&mut self.loses_next)
            || start - now > self.config.queue
            || self.rng.chance(self.config.loss)
            || packet.len() > self.config.largest
            || packet.len() > self.config.large_loss.0 && self.rng.chance(self.config.large_loss.1)
        {
            self.dropped += 1;
            return;
        }
        if self.config.mark_above.is_some_and(|limit| start - now > limit) && ecn == Ecn::Ect0 {
            ecn = Ecn::Ce;
        }
        let on_wire = packet.len() as u64 + crate::LOWER_HEADERS;
        let took = self.config.rate.map_or(Duration::ZERO, |rate| rate.time_for(on_wire));
        self.free_at = start + took;
        self.bytes += packet.len() as u64;
        let copies = 1 + u32::from(self.rng.chance(self.config.duplicate));
        for _ in 0..copies {
            let mut at = self.free_at + self.config.delay;
            if self.rng.chance(self.config.reorder) {
                at += Duration::from_nanos(self.rng.below(self.config.delay.as_nanos()));
            }
            self.order += 1;
            self.in_flight.insert((at, self.order), (packet.to_vec(), ecn));
        }
    }

    /// Drops the next packet.
    pub(crate) fn lose_next(&mut self) {
        self.loses_next = true;
    }

    /// Sets the delay of later packets.
    pub(crate) fn takes(&mut self, delay: Duration) {
        self.config.delay = delay;
    }

    /// Drops later packets that are longer than this.
    #[allow(dead_code, reason = "not all transports search for the path's packet size")]
    pub(crate) fn narrow(&mut self, largest: usize) {
        self.config.largest = largest;
    }

    /// Drops all later packets.
    pub(crate) fn cut(&mut self) {
        self.config.loss = 1.0;
    }

    /// Flips a bit in the last byte of the packet that was sent last.
    pub(crate) fn corrupt_last(&mut self) {
        let newest = self.in_flight.iter_mut().max_by_key(|&(&(_, order), _)| order);
        if let Some((_, (packet, _))) = newest
            && let Some(last) = packet.last_mut()
        {
            *last ^= 1;
        }
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.in_flight.keys().next().map(|&(at, _)| at)
    }

    pub(crate) fn deliver(&mut self, now: Instant) -> Option<(Vec<u8>, Ecn)> {
        let entry = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
