//! Pacing: send time of the next packet (RFC 5348 §4.6, §8.3).

use timeous_core::{Duration, Instant};

/// Nominal send times. Unused ones are credit for a burst of at most a round trip's packets.
#[derive(Clone, Debug, Default)]
pub(super) struct Pacing {
    /// Nominal send time and size of the last packet.
    last: Option<(Instant, u64)>,
}

/// Pacing parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    /// X_inst, in bytes per second.
    pub(super) rate: f64,
    /// s, in bytes.
    pub(super) segment: f64,
    /// RTT, for which credit is kept; without it there is no credit.
    pub(super) rtt: Option<Duration>,
    /// t_gran: the driver's timer granularity.
    pub(super) granularity: Duration,
}

impl Schedule {
    /// t_ipi: interval after a packet of this size.
    fn interval(&self, bytes: f64) -> Duration {
        Duration::from_secs_f64(bytes / self.rate)
    }

    /// t_delta: time by which a packet may leave early (RFC 5348 §8.3).
    fn early(&self) -> Duration {
        let least = self.interval(self.segment).min(self.granularity);
        self.rtt.map_or(least, |rtt| least.min(rtt)) / 2
    }

    /// Age up to which unused send times count: with the packet due now, they make up one round trip.
    fn credit(&self) -> Duration {
        self.rtt.unwrap_or(Duration::ZERO).saturating_sub(self.interval(self.segment))
    }
}

impl Pacing {
    /// Earliest send time of the next packet; `None` before the first, which may leave at once.
    pub(super) fn next(&self, schedule: &Schedule) -> Option<Instant> {
        self.nominal(schedule).map(|nominal| nominal.saturating_sub(schedule.early()))
    }

    /// Notes a sent packet.
    pub(super) fn sent(&mut self, now: Instant, bytes: u64, schedule: &Schedule) {
        let oldest = now.saturating_sub(schedule.credit());
        let nominal = self.nominal(schedule).map_or(now, |nominal| nominal.max(oldest));
        self.last = Some((nominal, bytes));
    }

    /// Nominal send time by the current rate, not the one at the last packet, so that a higher rate applies at once.
    fn nominal(&self, schedule: &Schedule) -> Option<Instant> {
        self.last.map(|(at, bytes)| at + schedule.interval(bytes as f64))
    }
}

#[cfg(test)]
mod tests;
