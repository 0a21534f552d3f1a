//! Estimated arrival time of acknowledged data, so that a source that measures lateness knows it.

use timeous_core::{Duration, Instant};

use crate::seq::Seq;

/// Timing of the last acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    heard_at: Instant,
    /// The packet that triggered the acknowledgement, and its estimated arrival.
    of: Option<(Seq, Instant)>,
    /// Lower bound of the arrival of the other acknowledged packets: the previous acknowledgement did not include them.
    others: Instant,
}

impl Arrival {
    /// Notes an acknowledgement of `ack` that the peer held for `elapsed`; the way back takes half of the minimum RTT.
    pub(super) fn note(&mut self, now: Instant, least: Option<Duration>, ack: Seq, elapsed: Duration) {
        let back = least.unwrap_or(Duration::ZERO) / 2;
        let of = least.map(|_| (ack, now.saturating_sub(elapsed + back)));
        *self = Self { heard_at: now, of, others: self.heard_at.saturating_sub(back) };
    }

    /// Returns the earliest possible arrival time of a packet that is acknowledged now.
    pub(super) fn earliest(&self, seq: Seq) -> Instant {
        let Self { of, others, .. } = *self;
        of.filter(|&(ack, _)| ack == seq).map_or(others, |(_, at)| at.max(others))
    }
}
