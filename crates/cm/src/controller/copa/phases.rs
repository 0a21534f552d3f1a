//! What Copa may be in the middle of.

use timeous_core::{Duration, Instant};

/// The window doubles each round trip, until something waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start {
    /// Where it ends at the latest.
    pub(super) threshold: Option<f64>,
    pub(super) in_a_row: u32,
}

/// What is known of others by so many packets, if it is.
const FLIGHT: f64 = 4.0;

/// The first packets after a time with nothing under way: what those wait for that were not sent yet cannot be their own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    began: Option<Instant>,
    /// Packets after the first acknowledgement.
    packets: f64,
    least: Duration,
    most: Duration,
}

impl Flight {
    /// Whether others fill the queue: all of the flight waited as long as half of a round trip, about equally, and for several times
    /// as long as one of its packets can take, which is no more than from each to the next.
    pub(super) fn met_others(&mut self, now: Instant, packets: f64, waited: Duration, base: Duration) -> bool {
        let Some(began) = self.began else {
            (self.began, self.least, self.most) = (Some(now), waited, waited);
            return false;
        };
        if self.packets >= FLIGHT {
            return false;
        }
        self.packets += packets;
        (self.least, self.most) = (self.least.min(waited), self.most.max(waited));
        let apart = now.saturating_since(began).as_secs_f64() / self.packets;
        let is_long = self.least * 2 >= base && self.least * 2 >= self.most;
        self.packets >= 0.5 && is_long && self.least.as_secs_f64() > 3.0 * apart
    }
}

/// What there was before a timeout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) window: f64,
    pub(super) start: Option<Start>,
}

/// Nothing is heard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// The window when it is over.
    pub(super) then: f64,
    /// Timeouts, one after the other.
    pub(super) timeouts: u32,
}

/// Its own packets are being taken out of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drain {
    pub(super) until: Instant,
    /// The window afterwards.
    pub(super) then: f64,
}

/// Nothing of its own is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paused {
    /// The window, if its packets were being taken out of a queue that others seemed to fill when the last of them arrived.
    pub(super) drained: Option<f64>,
}

/// A round trip as a share of another.
pub(super) fn share(of: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 1.0 } else { (of.as_secs_f64() / whole.as_secs_f64()).min(1.0) }
}
