//! A rate that a flow's own transport reckons, from what the flow's receiver tells (RFC 4342), as a controller.

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Congestion, Controller, TimedOut};
use crate::flow::Steering;

/// Does what it was told last. The transport hears of losses, silence and pauses itself, and says what follows.
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
