//! Controller for a rate that the flow's own transport computes from its receiver's reports (RFC 4342).

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Congestion, Controller, TimedOut};
use crate::flow::Steering;

/// Applies the latest rate and window. The transport itself handles losses, silence and pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steered(pub(crate) Steering);

impl Controller for Steered {
    fn name(&self) -> &'static str {
        "tfrc"
    }

    fn window(&self) -> u64 {
        self.0.window
    }

    fn on_acked(&mut self, _now: Instant, _acked: Acked) {}

    fn on_congestion(&mut self, _now: Instant, _congestion: Congestion) {}

    fn on_timeout(&mut self, _now: Instant, _timed_out: TimedOut) {}

    fn on_idle(&mut self, _now: Instant, _timeouts: u32) {}

    fn rate(&self, _srtt: Duration) -> Rate {
        self.0.rate
    }

    fn pace(&self, _srtt: Duration) -> Rate {
        self.0.rate
    }

    fn told(&self) -> Option<Rate> {
        Some(self.0.rate)
    }
}
