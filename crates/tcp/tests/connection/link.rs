//! A seeded link in virtual time: rate, delay, queue, loss, duplication, reordering, marks.

use std::collections::BTreeMap;

use timeous_core::{Duration, Ecn, Instant, Rate, Rng};

/// Settings of a simulated link.
#[derive(Clone, Debug)]
pub(crate) struct LinkConfig {
    pub(crate) delay: Duration,
    pub(crate) rate: Option<Rate>,
    /// Maximum queueing delay.
    pub(crate) queue: Duration,
    pub(crate) loss: f64,
    pub(crate) duplicate: f64,
    /// Share of packets that are delayed by up to `delay` more.
    pub(crate) reorder: f64,
    /// Queueing delay above which ECN-capable packets are marked.
    pub(crate) mark_above: Option<Duration>,
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
        }
    }
}

#[derive(Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    rng: Rng,
    free_at: Instant,
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
            order: 0,
            in_flight: BTreeMap::new(),
            sent: 0,
            dropped: 0,
            bytes: 0,
        }
    }

    pub(crate) fn send(&mut self, now: Instant, packet: &[u8], mut ecn: Ecn) {
        self.sent += 1;
        let start = self.free_at.max(now);
        if start - now > self.config.queue || self.rng.chance(self.config.loss) {
            self.dropped += 1;
            return;
        }
        if self.config.mark_above.is_some_and(|limit| start - now > limit) && ecn == Ecn::Ect0 {
            ecn = Ecn::Ce;
        }
        // 20 bytes of IP.
        let took = self.config.rate.map_or(Duration::ZERO, |rate| rate.time_for(packet.len() as u64 + 20));
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

    pub(crate) fn next(&self) -> Option<Instant> {
        self.in_flight.keys().next().map(|&(at, _)| at)
    }

    pub(crate) fn deliver(&mut self, now: Instant) -> Option<(Vec<u8>, Ecn)> {
        let entry = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now)?;
        Some(entry.remove())
    }
}
