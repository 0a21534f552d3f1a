//! Between the transmitter and the far end: the propagation delay.
//!
//! Whatever decides when, how often and in which order a packet that was sent arrives is decided in
//! [`Flight::launch`].

use std::collections::VecDeque;

use timeous_core::{Duration, Instant};

#[derive(Clone, Debug)]
pub(super) struct Flight<P> {
    delay: Duration,
    /// In the order of arrival. The first may still be in the transmitter.
    under_way: VecDeque<(Instant, usize, P)>,
}

impl<P> Flight<P> {
    pub(super) fn new(delay: Duration) -> Self {
        Self { delay, under_way: VecDeque::new() }
    }

    /// A packet leaves the transmitter at `departure`.
    pub(super) fn launch(&mut self, departure: Instant, len: usize, packet: P) {
        self.under_way.push_back((departure + self.delay, len, packet));
    }

    /// The first packet to arrive, if it has by `now`.
    pub(super) fn land(&mut self, now: Instant) -> Option<(Instant, usize, P)> {
        if self.next_arrival()? > now {
            return None;
        }
        self.under_way.pop_front()
    }

    /// When the next packet arrives; `None` if none ever does.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.under_way.front().map(|(arrival, ..)| *arrival).filter(|arrival| *arrival < Instant::FAR_FUTURE)
    }

    pub(super) fn len(&self) -> usize {
        self.under_way.len()
    }
}
