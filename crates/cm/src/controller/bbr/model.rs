//! BBR's model of the path: bandwidth, minimum RTT and limits of the bytes in flight (draft-ietf-ccwg-bbr §5.5).

use timeous_core::{Duration, Instant};

use super::sampling::Sample;

/// Maximum loss rate per round trip while probing for bandwidth: `LossThresh` (draft-ietf-ccwg-bbr-05 §2.7).
pub(super) const LOSS_THRESHOLD: f64 = 0.02;
/// Factor of the bounds after a round trip with losses: `Beta` (draft-ietf-ccwg-bbr-05 §2.7).
pub(super) const BETA: f64 = 0.7;
/// Share of `inflight_longterm` that is left to cross traffic: `Headroom` (draft-ietf-ccwg-bbr-05 §2.7).
const HEADROOM: f64 = 0.15;
/// Window of the minimum RTT: `MinRTTFilterLen` (draft-ietf-ccwg-bbr-05 §2.13.1).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Interval of RTT probes: `ProbeRTTInterval` (draft-ietf-ccwg-bbr-05 §2.13.2).
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// Half of `ExtraAckedFilterLen`, in round trips: the filter keeps two halves (draft-ietf-ccwg-bbr-05 §2.11).
const EXTRA_ACKED_ROUNDS: u64 = 5;

/// Path model, in bytes and seconds; an absent bound is infinite.
#[derive(Clone, Debug)]
pub(super) struct Model {
    /// Maximum delivery rates of the current and the previous probing cycle: `MaxBwFilterLen` is two.
    rates: [f64; 2],
    /// `bw_shortterm`, `inflight_shortterm`, `inflight_longterm`.
    pub(super) rate_lo: f64,
    pub(super) inflight_lo: f64,
    pub(super) inflight_hi: f64,
    min_rtt: Option<(Instant, Duration)>,
    /// Minimum RTT within `PROBE_RTT_INTERVAL`.
    probed_rtt: Option<(Instant, Duration)>,
    pub(super) probe_rtt_is_due: bool,
    pub(super) rounds: u64,
    pub(super) round_starts: bool,
    round_ends_at: u64,
    /// Whether a loss round starts with this acknowledgement (`loss_round_start`); its end and whether it had losses below.
    pub(super) lossy_round_starts: bool,
    lossy_round_ends_at: u64,
    pub(super) has_lost: bool,
    latest_rate: f64,
    pub(super) latest_inflight: f64,
    extra_acked: [f64; 2],
    extra_since: Option<(Instant, f64)>,
    extra_rounds: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self {
            rates: [0.0; 2],
            rate_lo: f64::INFINITY,
            inflight_lo: f64::INFINITY,
            inflight_hi: f64::INFINITY,
            min_rtt: None,
            probed_rtt: None,
            probe_rtt_is_due: false,
            rounds: 0,
            round_starts: false,
            round_ends_at: 0,
            lossy_round_starts: false,
            lossy_round_ends_at: 0,
            has_lost: false,
            latest_rate: 0.0,
            latest_inflight: 0.0,
            extra_acked: [0.0; 2],
            extra_since: None,
            extra_rounds: 0,
        }
    }
}

impl Model {
    /// `max_bw`: the maximum delivery rate of two probing cycles; 0 before the first sample.
    pub(super) fn max_rate(&self) -> f64 {
        self.rates[0].max(self.rates[1])
    }

    /// `bw`: `max_bw` within the short-term bound that losses set.
    pub(super) fn rate(&self) -> f64 {
        self.max_rate().min(self.rate_lo)
    }

    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.map(|(_, rtt)| rtt)
    }

    /// Bandwidth-delay product times `gain` (§5.6.4.2).
    pub(super) fn bdp(&self, gain: f64) -> Option<f64> {
        Some(self.rate() * self.min_rtt()?.as_secs_f64() * gain).filter(|&bdp| bdp > 0.0)
    }

    /// Limit of the bytes in flight that leaves headroom for cross traffic (§5.3.3.6, `BBRInflightWithHeadroom`).
    pub(super) fn with_headroom(&self, mtu: f64) -> f64 {
        if self.inflight_hi.is_infinite() {
            return self.inflight_hi;
        }
        self.inflight_hi - (HEADROOM * self.inflight_hi).max(mtu).min(self.inflight_hi)
    }

    /// `extra_acked`: bytes in flight needed to cover aggregated acknowledgements (§5.5.9).
    pub(super) fn extra_acked(&self) -> f64 {
        self.extra_acked[0].max(self.extra_acked[1])
    }

    /// Updates delivery signals, rounds and `max_bw` at the start of an acknowledgement (§5.5.1, §5.5.5, §5.5.10.3).
    /// `delivered` is the total so far.
    pub(super) fn heard(&mut self, sample: &Sample, delivered: u64) {
        self.latest_rate = self.latest_rate.max(sample.rate.unwrap_or(0.0));
        self.latest_inflight = self.latest_inflight.max(sample.delivered as f64);
        self.lossy_round_starts = sample.prior_delivered >= self.lossy_round_ends_at;
        if self.lossy_round_starts {
            self.lossy_round_ends_at = delivered;
        }
        self.round_starts = sample.prior_delivered >= self.round_ends_at;
        if self.round_starts {
            self.start_round(delivered);
            self.rounds += 1;
        }
        if let Some(rate) = sample.rate.filter(|&rate| rate >= self.max_rate() || !sample.app_limited) {
            self.rates[0] = self.rates[0].max(rate);
        }
    }

    /// Restarts the delivery signals at the end of an acknowledgement that started a loss round.
    pub(super) fn has_heard(&mut self, sample: &Sample) {
        if self.lossy_round_starts {
            self.latest_rate = sample.rate.unwrap_or(0.0);
            self.latest_inflight = sample.delivered as f64;
        }
    }

    pub(super) fn start_round(&mut self, delivered: u64) {
        self.round_ends_at = delivered;
    }

    /// `BBRAdvanceMaxBwFilter` (§5.5.6): starts a new probing cycle and drops the one before the last.
    pub(super) fn forget_a_cycle(&mut self) {
        if self.rates[0] > 0.0 {
            self.rates = [0.0, self.rates[0]];
        }
    }

    /// Notes a loss or a mark (`BBRNoteLoss`).
    pub(super) fn note_loss(&mut self, delivered: u64) {
        if !self.has_lost {
            self.lossy_round_ends_at = delivered;
        }
        self.has_lost = true;
    }

    pub(super) fn forget_congestion(&mut self) {
        (self.has_lost, self.latest_rate, self.latest_inflight) = (false, 0.0, 0.0);
    }

    /// `BBRResetShortTermModel`.
    pub(super) fn forget_short_term(&mut self) {
        (self.rate_lo, self.inflight_lo) = (f64::INFINITY, f64::INFINITY);
    }

    /// Lowers the short-term bounds to what was delivered, by at most three tenths, after a round trip with losses and
    /// without probing (§5.5.10.3).
    pub(super) fn lower(&mut self, window: f64) {
        if self.rate_lo.is_infinite() {
            self.rate_lo = self.max_rate();
        }
        if self.inflight_lo.is_infinite() {
            self.inflight_lo = window;
        }
        self.rate_lo = self.latest_rate.max(BETA * self.rate_lo);
        self.inflight_lo = self.latest_inflight.max(BETA * self.inflight_lo);
    }

    /// Takes an RTT sample (§5.3.4.3, `BBRUpdateMinRTT`).
    pub(super) fn measured(&mut self, now: Instant, rtt: Duration) {
        let is_older = |at: Instant, than: Duration| now.saturating_since(at) > than;
        self.probe_rtt_is_due = self.probed_rtt.is_some_and(|(at, _)| is_older(at, PROBE_RTT_INTERVAL));
        if self.probe_rtt_is_due || self.probed_rtt.is_none_or(|(_, least)| rtt < least) {
            self.probed_rtt = Some((now, rtt));
        }
        let (at, probed) = self.probed_rtt.unwrap_or((now, rtt));
        if self.min_rtt.is_none_or(|(since, least)| probed < least || is_older(since, MIN_RTT_WINDOW)) {
            self.min_rtt = Some((at, probed));
        }
    }

    /// Restarts the interval after an RTT probe.
    pub(super) fn has_probed_rtt(&mut self, now: Instant) {
        if let Some((at, _)) = &mut self.probed_rtt {
            *at = now;
        }
    }

    /// Updates `extra_acked`: the acknowledged bytes in excess of the estimated bandwidth (§5.5.9).
    pub(super) fn count_extra(&mut self, now: Instant, bytes: u64, window: f64, is_startup: bool) {
        if self.round_starts {
            self.extra_rounds += 1;
            if self.extra_rounds >= if is_startup { 1 } else { EXTRA_ACKED_ROUNDS } {
                (self.extra_rounds, self.extra_acked) = (0, [0.0, self.extra_acked[0]]);
            }
        }
        let rate = self.rate();
        let expected = |since: Instant| rate * now.saturating_since(since).as_secs_f64();
        let (since, acked) = self.extra_since.filter(|&(since, acked)| acked > expected(since)).unwrap_or((now, 0.0));
        let acked = acked + bytes as f64;
        self.extra_since = Some((since, acked));
        self.extra_acked[0] = self.extra_acked[0].max((acked - expected(since)).min(window));
    }

    pub(super) fn restart_extra(&mut self, now: Instant) {
        self.extra_since = Some((now, 0.0));
    }
}

/// Whether probing lost more than `LOSS_THRESHOLD` (§5.5.10.2, `IsInflightTooHigh`).
pub(super) fn is_too_much(sample: &Sample) -> bool {
    sample.lost as f64 > sample.outstanding as f64 * LOSS_THRESHOLD
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Sample = Sample {
        rate: Some(1e5),
        delivered: 10_000,
        prior_delivered: 0,
        lost: 0,
        outstanding: 10_000,
        app_limited: false,
    };

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_greatest_rate_of_two_cycles_counts_and_what_the_application_limited_only_if_it_is_more() {
        let mut model = Model::default();
        model.heard(&SAMPLE, 10_000);
        model.heard(&Sample { rate: Some(5e4), ..SAMPLE }, 20_000);
        assert_eq!(model.max_rate(), 1e5);
        model.forget_a_cycle();
        model.heard(&Sample { rate: Some(8e4), ..SAMPLE }, 30_000);
        assert_eq!(model.max_rate(), 1e5);
        model.forget_a_cycle();
        assert_eq!(model.max_rate(), 8e4);
        model.heard(&Sample { rate: Some(6e4), app_limited: true, ..SAMPLE }, 40_000);
        model.forget_a_cycle();
        assert_eq!(model.max_rate(), 8e4, "nothing was measured: nothing is forgotten");
        model.heard(&Sample { rate: Some(9e4), app_limited: true, ..SAMPLE }, 50_000);
        assert_eq!(model.max_rate(), 9e4);
    }

    #[test]
    fn the_least_round_trip_counts_ten_seconds_and_is_to_be_probed_after_five() {
        let mut model = Model::default();
        model.measured(at(0), Duration::from_millis(40));
        model.measured(at(5_000), Duration::from_millis(90));
        assert_eq!((model.min_rtt(), model.probe_rtt_is_due), (Some(Duration::from_millis(40)), false));
        model.measured(at(5_001), Duration::from_millis(80));
        assert_eq!((model.min_rtt(), model.probe_rtt_is_due), (Some(Duration::from_millis(40)), true));
        model.measured(at(10_000), Duration::from_millis(90));
        assert_eq!(model.min_rtt(), Some(Duration::from_millis(40)));
        model.measured(at(10_001), Duration::from_millis(90));
        assert_eq!(model.min_rtt(), Some(Duration::from_millis(80)), "that of the last five seconds");
    }

    #[test]
    fn a_lossy_round_lowers_the_bounds_to_what_came_and_by_three_tenths_at_most() {
        let mut model = Model::default();
        model.heard(&SAMPLE, 10_000);
        model.lower(20_000.0);
        assert_eq!((model.rate(), model.inflight_lo), (1e5, 14_000.0));
        model.forget_congestion();
        model.heard(&Sample { rate: Some(2e4), delivered: 2_000, ..SAMPLE }, 12_000);
        model.lower(20_000.0);
        let close = |value: f64, to: f64| assert!((value - to).abs() < 1.0, "{value} instead of {to}");
        close(model.rate(), 7e4);
        close(model.inflight_lo, 9_800.0);
        model.forget_short_term();
        assert_eq!(model.rate(), 1e5);
    }

    #[test]
    fn acknowledgements_in_lumps_are_counted_beyond_the_rate() {
        let mut model = Model::default();
        model.heard(&SAMPLE, 10_000);
        model.count_extra(at(0), 1_000, 1e6, false);
        model.count_extra(at(100), 20_000, 1e6, false);
        // 10 kB are expected in 100 ms; the first packet's acknowledgement waited for the second aggregate.
        assert!((10_000.0..=20_000.0).contains(&model.extra_acked()), "{}", model.extra_acked());
        model.count_extra(at(101), 20_000, 5_000.0, false);
        assert!(model.extra_acked() < 40_000.0);
    }
}
