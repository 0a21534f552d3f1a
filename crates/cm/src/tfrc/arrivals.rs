//! The rate at which data arrive: X_recv (RFC 5348 §6.2).

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

/// Feedback is early for a new loss event, of which there is one a round trip; more than that is not remembered.
const MAX_EXPIRATIONS: usize = 8;

/// Counts what arrives between expirations of the feedback timer.
///
/// The rate is over the time since the youngest expiration that is a round trip ago, which RFC 5348 §6.2 allows in place of
/// the last round trip: nothing has to be kept for each packet.
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

/// A receive rate, of data a second.
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

    /// What was counted last is a duplicate.
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.total.bytes = self.total.bytes.saturating_sub(bytes);
        self.total.packets -= 1;
    }

    /// The feedback timer expired.
    pub(super) fn expired(&mut self, now: Instant) {
        if self.expirations.len() == MAX_EXPIRATIONS {
            // The oldest is the one that a rate may still be measured from.
            self.expirations.remove(1);
        }
        self.expirations.push_back((now, self.total));
    }

    /// The first packet after a time without any is about to be counted: a round trip ago there was nothing under way.
    pub(super) fn after_silence(&mut self, now: Instant, rtt: Duration) {
        self.expirations.clear();
        self.expirations.push_back((now.saturating_sub(rtt), self.total));
    }

    /// The rate over the last round trip, or a little longer.
    pub(super) fn rate(&mut self, now: Instant, rtt: Duration) -> ReceiveRate {
        let old_enough = |&(at, _): &(Instant, Count)| now.saturating_since(at) >= rtt;
        while self.expirations.get(1).is_some_and(old_enough) {
            self.expirations.pop_front();
        }
        self.look(now, rtt)
    }

    /// The same, and nothing is forgotten.
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
