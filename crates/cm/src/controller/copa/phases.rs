//! Phases of Copa: slow start, drain, pause and the silence after a timeout.

use timeous_core::{Duration, Instant};

/// Slow start: the window doubles per round trip until a queue builds up.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start {
    /// Slow-start threshold, in packets.
    pub(super) threshold: Option<f64>,
    pub(super) in_a_row: u32,
}

/// Packets of the first flight that are examined for cross traffic. Chosen by us; the examination itself is of
/// docs/decisions/pauses-and-cross-traffic.md. A higher value may examine the flow's own queue.
const EXAMINED_PACKETS: f64 = 4.0;

/// First flight after a pause: queueing delay beyond its own packets' is due to cross traffic.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    began: Option<Instant>,
    /// Packets acknowledged after the first acknowledgement.
    packets: f64,
    least: Duration,
    most: Duration,
}

impl Flight {
    /// Whether there is cross traffic: the whole flight was delayed about equally, by at least half of the base RTT and
    /// by more than three times the spacing of its packets, which bounds a packet's transmission time.
    pub(super) fn met_others(&mut self, now: Instant, packets: f64, waited: Duration, base: Duration) -> bool {
        let Some(began) = self.began else {
            (self.began, self.least, self.most) = (Some(now), waited, waited);
            return false;
        };
        if self.packets >= EXAMINED_PACKETS {
            return false;
        }
        self.packets += packets;
        (self.least, self.most) = (self.least.min(waited), self.most.max(waited));
        let apart = now.saturating_since(began).as_secs_f64() / self.packets;
        let is_long = self.least * 2 >= base && self.least * 2 >= self.most;
        self.packets >= 0.5 && is_long && self.least.as_secs_f64() > 3.0 * apart
    }
}

/// State before a timeout, to be restored if it was spurious.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) window: f64,
    pub(super) start: Option<Start>,
}

/// Silence after a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// Window to restore at its end, in packets.
    pub(super) then: f64,
    /// Consecutive timeouts.
    pub(super) timeouts: u32,
}

/// Drain: Copa's own packets are being removed from the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) until: Instant,
    /// Window to restore at its end, in packets.
    pub(super) then: f64,
}

/// Pause: no packet is in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paused {
    /// Window of a drain in competitive mode that was in progress when the last packet was acknowledged.
    pub(super) drained: Option<f64>,
}

/// `of` as a share of `whole`, at most 1.
pub(super) fn share(of: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 1.0 } else { (of.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}
