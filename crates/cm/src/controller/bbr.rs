//! BBR version 3 (draft-ietf-ccwg-bbr-05; Cardwell et al., ACM Queue 2016): pacing rate and window from a model of the path.
//!
//! The maximum recent delivery rate and the minimum RTT give the bandwidth-delay product. BBR paces at that rate with
//! at most twice the product in flight, probes for bandwidth now and then and for the minimum RTT every five seconds.
//! Losses bound the model: above 2 % loss while probing they limit the bytes in flight, between probes the rate.
//!
//! Differences from the draft, and choices where it is open:
//!
//! - Loss is judged per acknowledgement, each with one RTT sample, not per lost packet (§5.5.10.2,
//!   `BBRHandleLostPacket`): the next acknowledgement brings the losses since its packet was sent.
//! - Startup ends after six acknowledgements with losses in one round trip, since the number of separate loss gaps is
//!   not known here.
//! - An ECN mark counts as a loss in its round trip and ends probing (§3.7 leaves the response open).
//! - Datagrams are not retransmitted, so that no recovery ends after which the window would be restored (§5.6.4.4):
//!   after a timeout the window grows by the acknowledged bytes.
//! - There is no segmentation offload that would need a send quantum (§5.5.8).
//! - An idle period halves the window once per timeout (RFC 2861 §3.2), as with other controllers, and leaves the model
//!   unchanged.

mod model;
mod phases;
mod sampling;
mod states;

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Congestion, Controller, Sent, TimedOut, initial, pace};
use model::Model;
use phases::{Cycle, Full, RttProbe, State};
use sampling::{Sample, Sampler};

/// Minimum congestion window, in packets: `MinPipeCwnd` (draft-ietf-ccwg-bbr-05 §2.7).
const MIN_PIPE_CWND: f64 = 4.0;
/// Pacing rate as a share of the estimated bandwidth: 1 less `PacingMarginPercent` (draft-ietf-ccwg-bbr-05 §2.4).
const PACING_MARGIN: f64 = 0.99;

/// BBR controller.
///
/// ```
/// use timeous_cm::{Acked, Bbr, Controller};
/// use timeous_core::{Duration, Instant};
/// let mut bbr = Bbr::new(1_000);
/// let start = bbr.window();
/// let rtt = Some(Duration::from_millis(50));
/// bbr.on_acked(Instant::ZERO, Acked { bytes: 1_000, outstanding: 0, rtt, srtt: rtt, window_limited: true });
/// assert_eq!(bbr.window(), start + 1_000, "nothing is known yet");
/// ```
#[derive(Clone, Debug)]
pub struct Bbr {
    mtu: f64,
    /// Congestion window in bytes, like all amounts below.
    window: f64,
    /// Window saved before a timeout or RTT probe reduced it; neither says anything about the path.
    prior_window: f64,
    pace: Option<f64>,
    sampler: Sampler,
    model: Model,
    state: State,
    cycle: Cycle,
    full: Full,
    rtt_probe: RttProbe,
    drain_began: u64,
    /// Acknowledgements with losses in this round trip.
    lossy_acks: u32,
    startup_is_lossy: bool,
    is_to_go_down: bool,
    /// Restarting from idle: the flight was empty, and no acknowledgement has come since.
    restarts: bool,
    before_timeout: Option<Before>,
}

/// State saved at a timeout, to be restored if it was spurious (§5.5.11).
#[derive(Clone, Copy, Debug)]
struct Before {
    window: f64,
    rate_lo: f64,
    inflight_lo: f64,
    inflight_hi: f64,
}

impl Bbr {
    /// Creates a controller for packets of at most `mtu` bytes, with the initial window of RFC 3390.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu: mtu as f64,
            window: initial::rfc3390(mtu) as f64,
            prior_window: 0.0,
            pace: None,
            sampler: Sampler::default(),
            model: Model::default(),
            state: State::Startup,
            cycle: Cycle::default(),
            full: Full::default(),
            rtt_probe: RttProbe::default(),
            drain_began: 0,
            lossy_acks: 0,
            startup_is_lossy: false,
            is_to_go_down: false,
            restarts: false,
            before_timeout: None,
        }
    }

    fn initial(&self) -> f64 {
        initial::rfc3390(self.mtu as u64) as f64
    }

    /// Allowed bytes in flight: the bandwidth-delay product times `gain` (§5.6.4.2, `BBRInflight`).
    fn inflight(&self, gain: f64) -> f64 {
        self.quantized(self.model.bdp(gain).unwrap_or_else(|| self.initial()))
    }

    fn quantized(&self, inflight: f64) -> f64 {
        let probing = if self.state == State::Up { 2.0 * self.mtu } else { 0.0 };
        inflight.max(MIN_PIPE_CWND * self.mtu) + probing
    }

    /// Updates the congestion window (§5.6.4.6, §5.6.4.7).
    fn set_window(&mut self, bytes: u64) {
        // Without RTT samples there is no model, and the window grows as in slow start.
        let path = self.model.bdp(self.state.window_gain()).unwrap_or(f64::INFINITY);
        let most = self.quantized(path + self.model.extra_acked());
        let grown = self.window + bytes as f64;
        if self.full.reached {
            self.window = grown.min(most);
        } else if self.window < most || (self.sampler.delivered() as f64) < self.initial() {
            self.window = grown;
        }
        let least = MIN_PIPE_CWND * self.mtu;
        self.window = self.window.max(least);
        if self.state == State::ProbeRtt {
            self.window = self.window.min(self.probe_rtt_window());
        }
        let bound = match self.state {
            State::Cruise | State::ProbeRtt => self.model.with_headroom(self.mtu),
            state if state.is_cycle() => self.model.inflight_hi,
            _ => f64::INFINITY,
        };
        self.window = self.window.min(bound.min(self.model.inflight_lo).max(least));
    }

    /// Updates the pacing rate (§5.6.2).
    fn set_pace(&mut self, gain: f64) {
        let rate = gain * self.model.rate() * PACING_MARGIN;
        // During startup the rate may only rise: a lower sample may just be application-limited.
        if rate > 0.0 && (self.full.reached || self.pace.is_some_and(|pace| rate > pace)) {
            self.pace = Some(rate);
        }
    }

    /// Pacing rate of the initial window (`BBRInitPacingRate`).
    fn first_pace(&self, srtt: Duration) -> f64 {
        State::Startup.pacing_gain() * self.initial() / srtt.as_secs_f64().max(1e-3)
    }

    fn save_window(&mut self) {
        let among = if self.state == State::ProbeRtt { self.prior_window } else { 0.0 };
        self.prior_window = self.window.max(among);
    }

    fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    fn heard(&mut self, now: Instant, acked: &Acked, sample: &Sample) {
        self.model.heard(sample, self.sampler.delivered());
        self.heed_losses(sample);
        self.model.count_extra(now, acked.bytes, self.window, !self.full.reached);
        self.advance(now, acked, sample);
        self.model.has_heard(sample);
        self.set_pace(self.state.pacing_gain());
    }
}

impl Controller for Bbr {
    fn name(&self) -> &'static str {
        "bbr"
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn adopt(&mut self, window: u64, _: Option<u64>) {
        self.window = (window as f64).max(self.mtu);
    }

    fn end_slow_start(&mut self) {
        if self.state == State::Startup {
            self.full.reached = true;
            self.drain();
        }
    }

    fn heeds_recovery(&self) -> bool {
        false
    }

    fn on_sent(&mut self, now: Instant, sent: Sent) {
        self.sampler.sent(now, &sent);
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        if let Some(srtt) = acked.srtt.filter(|_| self.pace.is_none()) {
            self.pace = Some(self.first_pace(srtt));
        }
        let min_rtt = self.model.min_rtt().into_iter().chain(acked.rtt).min();
        if let Some(sample) = self.sampler.acked(now, acked.bytes, acked.rtt, min_rtt) {
            self.heard(now, &acked, &sample);
        } else if let Some(rtt) = acked.rtt {
            self.model.measured(now, rtt);
        }
        self.set_window(acked.bytes);
    }

    fn on_lost(&mut self, _: Instant, bytes: u64) {
        self.sampler.lost(bytes);
        self.model.note_loss(self.sampler.delivered());
        self.lossy_acks += 1;
    }

    fn on_congestion(&mut self, _: Instant, congestion: Congestion) {
        self.before_timeout = None;
        if !congestion.marked {
            return;
        }
        self.model.note_loss(self.sampler.delivered());
        if self.heeds_probing() {
            let marked = Sample {
                rate: None,
                delivered: 0,
                prior_delivered: 0,
                lost: 0,
                outstanding: congestion.outstanding,
                app_limited: false,
            };
            self.probed_too_much(&marked);
        }
    }

    /// Reduces the window to one packet; acknowledgements let it grow again (§5.6.4.4).
    fn on_timeout(&mut self, _: Instant, timed_out: TimedOut) {
        if !timed_out.again {
            let Model { rate_lo, inflight_lo, inflight_hi, .. } = self.model;
            self.before_timeout = Some(Before { window: self.window, rate_lo, inflight_lo, inflight_hi });
        }
        self.save_window();
        self.window = self.mtu;
    }

    /// Restores the saved state at once: pacing keeps the larger window from leaving as a burst.
    fn on_spurious_timeout(&mut self, _: u64) {
        let Some(before) = self.before_timeout.take() else { return };
        self.window = self.window.max(before.window);
        self.model.rate_lo = before.rate_lo.max(self.model.rate_lo);
        self.model.inflight_lo = before.inflight_lo.max(self.model.inflight_lo);
        self.model.inflight_hi = before.inflight_hi.max(self.model.inflight_hi);
    }

    /// Restarts from idle at the estimated bandwidth, without waiting for acknowledgements (§5.4).
    fn on_idle(&mut self, now: Instant, timeouts: u32) {
        self.restarts = true;
        self.model.restart_extra(now);
        if self.state.is_cycle() {
            self.set_pace(1.0);
        }
        self.end_rtt_probe(now);
        let least = self.window.min(self.initial());
        self.window = (0..timeouts.min(64)).fold(self.window, |window, _| window / 2.0).max(least);
    }

    /// Expects the window to double within a round trip during startup.
    fn rate(&self, srtt: Duration) -> Rate {
        let of_window = pace::expected(self.window as u64, !self.full.reached, srtt);
        let known = if self.full.reached { (8.0 * self.model.rate()) as u64 } else { 0 };
        if known > 0 { Rate::from_bps(known).min(of_window) } else { of_window }
    }

    fn pace(&self, srtt: Duration) -> Rate {
        Rate::from_bps((8.0 * self.pace.unwrap_or_else(|| self.first_pace(srtt))) as u64)
    }
}

#[cfg(test)]
mod tests;
