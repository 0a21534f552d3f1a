//! BBR's states: startup, drain, probing for bandwidth, probing for the minimum RTT (draft-ietf-ccwg-bbr §5.3).

use timeous_core::{Duration, Instant};

/// Minimum time between bandwidth probes; a random part of up to a second is added
/// (draft-ietf-ccwg-bbr-05 §5.3.3.5.3).
pub(super) const MIN_PROBE_WAIT: Duration = Duration::from_secs(2);
/// Window during an RTT probe, in bandwidth-delay products: `ProbeRTTCwndGain` (draft-ietf-ccwg-bbr-05 §2.13.2).
pub(super) const PROBE_RTT_CWND_GAIN: f64 = 0.5;

/// State of the state machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Startup,
    Drain,
    /// Four phases of `ProbeBW`.
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl State {
    /// Pacing gain of the state (draft-ietf-ccwg-bbr-05 §5.6.1).
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => 2.77,
            Self::Drain => 0.5,
            Self::Down => 0.9,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => 1.25,
        }
    }

    /// Window gain of the state, in bandwidth-delay products (draft-ietf-ccwg-bbr-05 §5.6.1).
    pub(super) fn window_gain(self) -> f64 {
        match self {
            Self::Up => 2.25,
            Self::ProbeRtt => PROBE_RTT_CWND_GAIN,
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

/// Phase of the incoming acknowledgements relative to a bandwidth probe: the draft's `ack_phase`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Probes {
    Refill,
    Start,
    Feedback,
    Stop,
}

/// Bandwidth probing cycle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cycle {
    pub(super) began: Instant,
    pub(super) wait: Duration,
    /// Round trips since the last bandwidth probe.
    pub(super) rounds: u64,
    pub(super) probes: Probes,
    /// Losses still count against this probe: `bw_probe_samples`.
    pub(super) heeds: bool,
    pub(super) up_rounds: u32,
    /// Acknowledged bytes per byte by which `inflight_hi` grows, and those counted so far.
    pub(super) up_count: f64,
    pub(super) up_acked: f64,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            began: Instant::ZERO,
            wait: MIN_PROBE_WAIT,
            rounds: 0,
            probes: Probes::Stop,
            heeds: false,
            up_rounds: 0,
            up_count: f64::INFINITY,
            up_acked: 0.0,
        }
    }
}

/// Full-pipe estimator: the pipe is full once the delivery rate has stopped growing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Full {
    pub(super) rate: f64,
    pub(super) rounds: u32,
    pub(super) now: bool,
    /// The pipe was full at some time.
    pub(super) reached: bool,
}

impl Full {
    /// Restarts the estimate from `rate`.
    pub(super) fn look_again(&mut self, rate: f64) {
        *self = Self { rate, reached: self.reached, ..Self::default() };
    }
}

/// RTT probe: its end, once few enough bytes are in flight, and whether a round trip has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RttProbe {
    pub(super) until: Option<Instant>,
    pub(super) round_is_over: bool,
}
