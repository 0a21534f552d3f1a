//! BBR's state transitions on acknowledgements (draft-ietf-ccwg-bbr §5.3).

use timeous_core::{Duration, Instant, Rng};

use super::super::Acked;
use super::model::{BETA, is_too_much};
use super::phases::{MIN_PROBE_WAIT, PROBE_RTT_CWND_GAIN, Probes, RttProbe, State};
use super::sampling::Sample;
use super::{Bbr, MIN_PIPE_CWND};

/// Acknowledgements with losses in one round trip that end startup: `BBRStartupFullLossCnt`
/// (draft-ietf-ccwg-bbr-05 §5.3.1.3).
const STARTUP_FULL_LOSS_COUNT: u32 = 6;
/// Growth factor of the rate within `FULL_BW_COUNT` round trips below which the pipe is full
/// (draft-ietf-ccwg-bbr-05 §5.3.1.2).
const FULL_BW_GROWTH: f64 = 1.25;
/// Round trips without that growth after which the pipe is full (draft-ietf-ccwg-bbr-05 §5.3.1.2).
const FULL_BW_COUNT: u32 = 3;
/// Maximum of drain, in round trips (draft-ietf-ccwg-bbr-05 §5.3.2): a queue filled by cross traffic never drains.
const MAX_DRAIN_ROUNDS: u64 = 3;
/// Maximum of the round trips between bandwidth probes, which otherwise follow Reno's time to grow by as much
/// (draft-ietf-ccwg-bbr-05 §5.3.3.5.3).
const MAX_PROBE_ROUNDS: f64 = 63.0;
/// Minimum duration of an RTT probe: `ProbeRTTDuration` (draft-ietf-ccwg-bbr-05 §2.13.2).
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);

impl Bbr {
    /// Runs the state machine for an acknowledgement, in the order of §5.2.3.
    pub(super) fn advance(&mut self, now: Instant, acked: &Acked, sample: &Sample) {
        if self.model.round_starts {
            self.cycle.rounds += 1;
        }
        self.look_whether_full(sample);
        self.check_startup();
        let drained = self.inflight(1.0);
        if self.state == State::Drain
            && (acked.outstanding as f64 <= drained || self.model.rounds > self.drain_began + MAX_DRAIN_ROUNDS)
        {
            self.go_down(now);
        }
        if self.full.reached {
            self.adapt_long_term(acked, sample);
            self.turn(now, acked, sample);
        }
        if let Some(rtt) = acked.rtt {
            self.model.measured(now, rtt);
        }
        self.probe_rtt(now, acked);
    }

    /// Lowers the short-term bounds once per loss round, unless probing (§5.5.10.3).
    pub(super) fn heed_losses(&mut self, sample: &Sample) {
        if !self.model.lossy_round_starts {
            return;
        }
        if self.model.has_lost && !self.state.is_probing() {
            self.model.lower(self.window);
        }
        if self.state == State::Startup && self.lossy_acks >= STARTUP_FULL_LOSS_COUNT && is_too_much(sample) {
            self.startup_is_lossy = true;
        }
        (self.model.has_lost, self.lossy_acks) = (false, 0);
    }

    /// Updates the full-pipe estimate (§5.3.1.2).
    fn look_whether_full(&mut self, sample: &Sample) {
        let Some(rate) = sample.rate.filter(|_| !self.full.now && self.model.round_starts && !sample.app_limited)
        else {
            return;
        };
        if rate >= self.full.rate * FULL_BW_GROWTH {
            self.full.look_again(rate);
            return;
        }
        self.full.rounds += 1;
        self.full.now = self.full.rounds >= FULL_BW_COUNT;
        self.full.reached |= self.full.now;
    }

    /// Leaves startup if the pipe is full or losses were too many (§5.3.1.3).
    fn check_startup(&mut self) {
        if self.state != State::Startup {
            return;
        }
        if std::mem::take(&mut self.startup_is_lossy) {
            self.full.reached = true;
            self.model.inflight_hi = self.model.bdp(1.0).unwrap_or(0.0).max(self.model.latest_inflight);
        }
        if self.full.reached {
            self.drain();
        }
    }

    /// Enters drain: the bandwidth is known, and a queue is likely.
    pub(super) fn drain(&mut self) {
        (self.state, self.drain_began) = (State::Drain, self.model.rounds);
    }

    /// Adapts `inflight_hi`, the bound set by losses while probing, and the acknowledgement phase (§5.3.3.6).
    fn adapt_long_term(&mut self, acked: &Acked, sample: &Sample) {
        if self.model.round_starts {
            match self.cycle.probes {
                Probes::Start => self.cycle.probes = Probes::Feedback,
                // The probe's samples are complete: start a new cycle of the bandwidth filter.
                Probes::Stop => {
                    (self.cycle.probes, self.cycle.heeds) = (Probes::Refill, false);
                    if self.state.is_cycle() && !sample.app_limited {
                        self.model.forget_a_cycle();
                    }
                }
                _ => {}
            }
        }
        if is_too_much(sample) {
            if self.cycle.heeds {
                self.probed_too_much(sample);
            }
            return;
        }
        if self.model.inflight_hi.is_infinite() {
            return;
        }
        self.model.inflight_hi = self.model.inflight_hi.max(sample.outstanding as f64);
        if self.state == State::Up {
            self.raise(acked);
        }
    }

    /// Responds to too much loss while probing (§5.5.10.2, `BBRHandleInflightTooHigh`).
    pub(super) fn probed_too_much(&mut self, sample: &Sample) {
        self.cycle.heeds = false;
        if !sample.app_limited {
            let target = self.model.bdp(1.0).map_or(self.window, |bdp| bdp.min(self.window));
            self.model.inflight_hi = (sample.outstanding as f64).max(BETA * target);
        }
        self.is_to_go_down |= self.state == State::Up;
    }

    /// Whether losses count against this probe.
    pub(super) fn heeds_probing(&self) -> bool {
        self.cycle.heeds
    }

    fn turn(&mut self, now: Instant, acked: &Acked, sample: &Sample) {
        let probes_too_much = std::mem::take(&mut self.is_to_go_down);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe(now) => self.refill(),
            State::Down if self.has_headroom(acked) => self.state = State::Cruise,
            // One round trip at the old rate fills the pipe before probing begins.
            State::Refill if self.model.round_starts => self.go_up(sample),
            State::Up => {
                if acked.window_limited && self.window >= self.model.inflight_hi {
                    // `inflight_hi` limits the rate here, so that a rate that stops growing does not mean a full pipe.
                    self.full.look_again(sample.rate.unwrap_or(0.0));
                } else if self.full.now {
                    self.go_down(now);
                }
                if probes_too_much && self.state == State::Up {
                    self.go_down(now);
                }
            }
            _ => {}
        }
    }

    fn has_headroom(&self, acked: &Acked) -> bool {
        let most = self.model.with_headroom(self.mtu).max(MIN_PIPE_CWND * self.mtu);
        acked.outstanding as f64 <= most.min(self.inflight(1.0))
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        let target = self.model.bdp(1.0).map_or(self.window, |bdp| bdp.min(self.window)) / self.mtu;
        now.saturating_since(self.cycle.began) > self.cycle.wait
            || self.cycle.rounds as f64 >= target.min(MAX_PROBE_ROUNDS)
    }

    pub(super) fn go_down(&mut self, now: Instant) {
        self.model.forget_congestion();
        // Randomized, so that flows started together do not probe together.
        let mut rng = Rng::from_seed(now.as_nanos() ^ self.sampler.delivered() << 20);
        self.cycle.rounds = rng.below(2);
        self.cycle.wait = MIN_PROBE_WAIT + Duration::from_secs_f64(rng.unit());
        (self.cycle.began, self.cycle.up_count) = (now, f64::INFINITY);
        self.enter(State::Down, Probes::Stop);
    }

    fn refill(&mut self) {
        self.model.forget_short_term();
        (self.cycle.up_rounds, self.cycle.up_acked) = (0, 0.0);
        self.enter(State::Refill, Probes::Refill);
    }

    fn go_up(&mut self, sample: &Sample) {
        self.cycle.heeds = true;
        self.full.look_again(sample.rate.unwrap_or(0.0));
        self.enter(State::Up, Probes::Start);
        self.raise_faster();
    }

    fn enter(&mut self, state: State, probes: Probes) {
        (self.state, self.cycle.probes) = (state, probes);
        self.model.start_round(self.sampler.delivered());
    }

    /// Doubles the growth of `inflight_hi` per round trip, from one packet in the first.
    fn raise_faster(&mut self) {
        let growth = self.mtu * f64::from(1 << self.cycle.up_rounds);
        self.cycle.up_rounds = (self.cycle.up_rounds + 1).min(30);
        self.cycle.up_count = (self.window / growth).max(1.0);
    }

    fn raise(&mut self, acked: &Acked) {
        if !acked.window_limited || self.window < self.model.inflight_hi {
            return;
        }
        self.cycle.up_acked += acked.bytes as f64;
        self.model.inflight_hi += self.cycle.up_acked / self.cycle.up_count;
        self.cycle.up_acked = 0.0;
        if self.model.round_starts {
            self.raise_faster();
        }
    }

    /// Starts, continues or ends an RTT probe (§5.3.4.3).
    fn probe_rtt(&mut self, now: Instant, acked: &Acked) {
        if self.state != State::ProbeRtt && self.model.probe_rtt_is_due && !self.restarts {
            self.save_window();
            self.rtt_probe = RttProbe::default();
            self.enter(State::ProbeRtt, Probes::Stop);
        }
        if self.state == State::ProbeRtt {
            self.sampler.limit_by_application(acked.outstanding);
            match self.rtt_probe.until {
                None if acked.outstanding as f64 <= self.probe_rtt_window() => {
                    self.rtt_probe.until = Some(now + PROBE_RTT_DURATION);
                    self.model.start_round(self.sampler.delivered());
                }
                None => {}
                Some(_) => {
                    self.rtt_probe.round_is_over |= self.model.round_starts;
                    if self.rtt_probe.round_is_over {
                        self.end_rtt_probe(now);
                    }
                }
            }
        }
        self.restarts = false;
    }

    pub(super) fn probe_rtt_window(&self) -> f64 {
        self.model.bdp(PROBE_RTT_CWND_GAIN).unwrap_or(0.0).max(MIN_PIPE_CWND * self.mtu)
    }

    /// Ends an RTT probe that has lasted long enough (`BBRCheckProbeRTTDone`, §5.3.4.4).
    pub(super) fn end_rtt_probe(&mut self, now: Instant) {
        if self.state != State::ProbeRtt || self.rtt_probe.until.is_none_or(|until| now <= until) {
            return;
        }
        self.model.has_probed_rtt(now);
        self.restore_window();
        self.model.forget_short_term();
        if self.full.reached {
            self.go_down(now);
            self.state = State::Cruise;
        } else {
            self.state = State::Startup;
        }
    }
}
