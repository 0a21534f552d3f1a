//! When data arrived, as their acknowledgements tell: who chooses is to know what was late.

use timeous_core::{Duration, Instant};

use crate::seq::Seq;

/// The last acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    heard_at: Instant,
    /// The packet for which it left, and when that came.
    of: Option<(Seq, Instant)>,
    /// What else it tells of had not come by then: the one before would have told of it.
    others: Instant,
}

impl Arrival {
    /// The peer acknowledges `ack`, which it has held for `elapsed`: it came half of the smallest round trip before that.
    pub(super) fn note(&mut self, now: Instant, least: Option<Duration>, ack: Seq, elapsed: Duration) {
        let back = least.unwrap_or(Duration::ZERO) / 2;
        let of = least.map(|_| (ack, now.saturating_sub(elapsed + back)));
        *self = Self { heard_at: now, of, others: self.heard_at.saturating_sub(back) };
    }

    /// When the packet came at the earliest that is acknowledged now.
    pub(super) fn earliest(&self, seq: Seq) -> Instant {
        let Self { of, others, .. } = *self;
        of.filter(|&(ack, _)| ack == seq).map_or(others, |(_, at)| at.max(others))
    }
}
