//! Receive rate X_recv (RFC 5348 §6.2).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

/// Maximum number of timer expirations kept. Chosen by us: early feedback comes at a new loss event only, at most once
/// per RTT, and streams with deadlines have four reports per RTT. A lower value measures over more than an RTT.
const MAX_EXPIRATIONS: usize = 8;

/// Counts arrivals between expirations of the feedback timer.
///
/// The rate is measured since the latest expiration that is at least a round trip ago, which RFC 5348 §6.2 allows
/// instead of the last round trip, and which needs no per-packet state.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrivals {
    total: Count,
    expirations: VecDeque<(Instant, Count)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    bytes: u64,
    packets: u64,
}

/// Receive rate per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ReceiveRate {
    pub(super) bytes: f64,
    pub(super) packets: f64,
}

impl Arrivals {
    pub(super) fn count(&mut self, bytes: u64) {
        self.total.bytes = self.total.bytes.saturating_add(bytes);
        self.total.packets += 1;
    }

    /// Uncounts a packet that turned out to be a duplicate.
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.total.bytes = self.total.bytes.saturating_sub(bytes);
        self.total.packets -= 1;
    }

    /// Notes an expiration of the feedback timer.
    pub(super) fn expired(&mut self, now: Instant) {
        if self.expirations.len() == MAX_EXPIRATIONS {
            // Keep the oldest one, which may still be the start of a measurement.
            self.expirations.remove(1);
        }
        self.expirations.push_back((now, self.total));
    }

    /// Restarts the measurement before the first packet after a silence, as if nothing was in flight a round trip ago.
    pub(super) fn after_silence(&mut self, now: Instant, rtt: Duration) {
        self.expirations.clear();
        self.expirations.push_back((now.saturating_sub(rtt), self.total));
    }

    /// Receive rate over the last round trip or a little longer; drops older expirations.
    pub(super) fn rate(&mut self, now: Instant, rtt: Duration) -> ReceiveRate {
        let old_enough = |&(at, _): &(Instant, Count)| now.saturating_since(at) >= rtt;
        while self.expirations.get(1).is_some_and(old_enough) {
            self.expirations.pop_front();
        }
        self.look(now, rtt)
    }

    /// The same without dropping expirations.
    pub(super) fn look(&self, now: Instant, rtt: Duration) -> ReceiveRate {
        let old_enough = |&&(at, _): &&(Instant, Count)| now.saturating_since(at) >= rtt;
        let since = self.expirations.iter().rev().find(old_enough).or_else(|| self.expirations.front());
        let Some(&(at, then)) = since else { return ReceiveRate::default() };
        let secs = now.saturating_since(at).max(rtt).as_secs_f64();
        if secs <= 0.0 {
            return ReceiveRate::default();
        }
        ReceiveRate {
            bytes: self.total.bytes.saturating_sub(then.bytes) as f64 / secs,
            packets: (self.total.packets - then.packets) as f64 / secs,
        }
    }
}
