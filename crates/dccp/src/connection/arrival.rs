//! When data arrived, as their acknowledgements tell: who chooses is to know what was late.

use timeous_cm::Manager;
use timeous_core::{Duration, Instant};

use super::{Connection, told};
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

impl Connection {
    /// The peer acknowledges `ack`, which it has held for `elapsed`: it came half of the smallest round trip before that.
    pub(super) fn note_came(&mut self, now: Instant, cm: &Manager, ack: Seq, elapsed: Duration) {
        let least = self.flow.and_then(|flow| told(cm.query(flow))).and_then(|path| path.min_rtt);
        let back = least.unwrap_or(Duration::ZERO) / 2;
        let of = least.map(|_| (ack, now.saturating_sub(elapsed + back)));
        self.arrival = Arrival { heard_at: now, of, others: self.arrival.heard_at.saturating_sub(back) };
    }

    /// When the packet came at the earliest that is acknowledged now.
    pub(super) fn came_at(&self, seq: Seq) -> Instant {
        let Arrival { of, others, .. } = self.arrival;
        of.filter(|&(ack, _)| ack == seq).map_or(others, |(_, at)| at.max(others))
    }
}
