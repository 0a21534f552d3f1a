//! When the next packet may leave (RFC 5348 §4.6, §8.3).

use timeous_core::{Duration, Instant};

/// Nominal send times. What is not used is credit for a burst, of a round trip's worth at most.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacing {
    /// The nominal send time of the last packet, and its size.
    last: Option<(Instant, u64)>,
}

/// What packets are scheduled by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// X_inst, in bytes a second.
    pub(super) rate: f64,
    /// s, in bytes.
    pub(super) segment: f64,
    /// The round trip, for which credit is kept; none is kept without one.
    pub(super) rtt: Option<Duration>,
    /// t_gran: how exactly the driver wakes up.
    pub(super) granularity: Duration,
}

impl Schedule {
    /// t_ipi for a packet of so many bytes.
    fn interval(&self, bytes: f64) -> Duration {
        Duration::from_secs_f64(bytes / self.rate)
    }

    /// t_delta: so much before its time a packet may leave (RFC 5348 §8.3).
    fn early(&self) -> Duration {
        let least = self.interval(self.segment).min(self.granularity);
        self.rtt.map_or(least, |rtt| least.min(rtt)) / 2
    }

    /// How long an unused send time is good for. With the packet that is due now it makes a round trip's worth.
    fn credit(&self) -> Duration {
        self.rtt.unwrap_or(Duration::ZERO).saturating_sub(self.interval(self.segment))
    }
}

impl Pacing {
    /// When the next packet may leave; at once before the first.
    pub(super) fn next(&self, schedule: &Schedule) -> Option<Instant> {
        self.nominal(schedule).map(|nominal| nominal.saturating_sub(schedule.early()))
    }

    /// A packet left.
    pub(super) fn sent(&mut self, now: Instant, bytes: u64, schedule: &Schedule) {
        let oldest = now.saturating_sub(schedule.credit());
        let nominal = self.nominal(schedule).map_or(now, |nominal| nominal.max(oldest));
        self.last = Some((nominal, bytes));
    }

    /// By the rate of now, not that of when the last one left: a rate that has risen is not waited for.
    fn nominal(&self, schedule: &Schedule) -> Option<Instant> {
        self.last.map(|(at, bytes)| at + schedule.interval(bytes as f64))
    }
}

#[cfg(test)]
mod tests;
