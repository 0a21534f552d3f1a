//! What BBR is in the middle of: startup, drain, probing for more rate, probing the round trip (draft-ietf-ccwg-bbr §5.3).

use timeous_core::{Duration, Instant};

/// Between two times of probing for more rate: so long, and up to a second more (§5.3.3.5).
pub(super) const PROBE_AFTER: Duration = Duration::from_secs(2);
/// What may be under way of what the path holds while the round trip is probed.
pub(super) const PROBE_RTT_GAIN: f64 = 0.5;

/// What it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    /// The four of `ProbeBW`.
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// §5.6.1.
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    pub(super) fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => PROBE_RTT_GAIN,
            _ => 2.0,
        }
    }

    pub(super) fn is_cycle(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    pub(super) fn is_probing(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// What acknowledgements are of: packets that probed, or that did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probes {
    Refill,
    Start,
    Feedback,
    Stop,
}

/// A cycle of probing for more rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) began: Instant,
    pub(super) wait: Duration,
    /// Round trips since the last time of probing.
    pub(super) rounds: u64,
    pub(super) probes: Probes,
    /// A loss still counts against this time of probing.
    pub(super) heeds: bool,
    pub(super) up_rounds: u32,
    /// Bytes that are acknowledged for each by which the bound grows, and those that have been.
    pub(super) up_count: f64,
    pub(super) up_acked: f64,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            began: Instant::ZERO,
            wait: PROBE_AFTER,
            rounds: 0,
            probes: Probes::Stop,
            heeds: false,
            up_rounds: 0,
            up_count: f64::INFINITY,
            up_acked: 0.0,
        }
    }
}

/// Whether the path is full: its rate has stopped to grow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Full {
    pub(super) rate: f64,
    pub(super) rounds: u32,
    pub(super) now: bool,
    /// It was at some time.
    pub(super) reached: bool,
}

impl Full {
    /// Looks anew, from a rate on.
    pub(super) fn look_again(&mut self, rate: f64) {
        *self = Self { rate, reached: self.reached, ..Self::default() };
    }
}

/// The round trip is being probed: until then, if the pipe is empty enough, and whether a round trip went by.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RttProbe {
    pub(super) until: Option<Instant>,
    pub(super) round_is_over: bool,
}
