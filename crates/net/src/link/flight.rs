//! Propagation of packets, from the transmitter to the far end.
//!
//! Arrival time, order and duplication of a packet are decided in [`Flight::launch`].

use std::collections::VecDeque;

use timeous_core::{Duration, Instant, Rng};

use super::variation::{Jitter, Reorder};

#[derive(Clone, Debug)]
pub(super) struct Flight<P> {
    delay: Duration,
    jitter: Jitter,
    reorder: Reorder,
    duplicate: f64,
    rng: Rng,
    /// Arrival time of the last packet that keeps its order.
    latest: Instant,
    launched: u64,
    /// Highest number delivered so far.
    highest: u64,
    /// In order of arrival. The first may still be in transmission.
    under_way: VecDeque<Flying<P>>,
}

/// A packet in flight.
#[derive(Clone, Debug)]
pub(super) struct Flying<P> {
    pub(super) arrival: Instant,
    pub(super) len: usize,
    pub(super) packet: P,
    /// Sequence number at the transmitter; duplicates share it.
    number: u64,
}

impl<P> Flight<P> {
    pub(super) fn new(delay: Duration, jitter: Jitter, reorder: Reorder, duplicate: f64, rng: Rng) -> Self {
        let (latest, launched, highest) = Default::default();
        Self { delay, jitter, reorder, duplicate, rng, latest, launched, highest, under_way: VecDeque::new() }
    }

    /// Launches a packet that leaves the transmitter at `departure`; returns whether it was duplicated.
    pub(super) fn launch(&mut self, departure: Instant, len: usize, packet: P) -> bool
    where
        P: Clone,
    {
        self.launched += 1;
        let twice = self.duplicate > 0.0 && self.rng.chance(self.duplicate);
        if twice {
            self.board(departure, len, packet.clone());
        }
        self.board(departure, len, packet);
        twice
    }

    fn board(&mut self, departure: Instant, len: usize, packet: P) {
        let arrival = self.arrival(departure);
        let in_order = self.under_way.back().is_none_or(|last| last.arrival <= arrival);
        let place = match in_order {
            true => self.under_way.len(),
            false => self.under_way.partition_point(|other| other.arrival <= arrival),
        };
        self.under_way.insert(place, Flying { arrival, len, packet, number: self.launched });
    }

    fn arrival(&mut self, departure: Instant) -> Instant {
        if self.reorder.share > 0.0 && self.rng.chance(self.reorder.share) {
            return self.reorder.by.map_or(departure, |by| departure + self.delay + by);
        }
        let arrival = departure + self.jitter.apply(self.delay, &mut self.rng);
        if self.jitter.reorders {
            return arrival;
        }
        self.latest = self.latest.max(arrival);
        self.latest
    }

    /// Whether a later packet may arrive earlier.
    pub(super) fn reorders(&self) -> bool {
        self.reorder.share > 0.0 || self.jitter.reorders
    }

    /// Returns the first packet that has arrived by `now`, and whether a later one has overtaken it (reordered, RFC
    /// 4737 §3.3).
    pub(super) fn land(&mut self, now: Instant) -> Option<(Flying<P>, bool)> {
        if self.next_arrival()? > now {
            return None;
        }
        let landed = self.under_way.pop_front()?;
        let overtaken = landed.number < self.highest;
        self.highest = self.highest.max(landed.number);
        Some((landed, overtaken))
    }

    /// Arrival time of the next packet; `None` if there is none.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.under_way.front().map(|first| first.arrival).filter(|arrival| *arrival < Instant::FAR_FUTURE)
    }

    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }
}
