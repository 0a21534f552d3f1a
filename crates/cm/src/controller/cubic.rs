//! CUBIC (RFC 9438): the window is a cubic function of the time since the last congestion event.
//!
//! Implements the whole RFC except the optional undo of a spurious fast retransmit (§4.9.2). Slow start is RFC 5681's
//! unless HyStart++ is enabled (§4.10). Windows are fractional packets and times are seconds, as in the RFC; its
//! `W_max` is `peak`, `cwnd_prior` is `prior` and `W_est` is `reno`.

use timeous_core::{Duration, Instant, Rate};

use super::hystart::{Advice, HyStart};
use super::{Acked, Congestion, Controller, TimedOut, initial, pace};

/// Factor of the window after a congestion event: `β_cubic` (RFC 9438 §4.6).
const BETA: f64 = 0.7;
/// Steepness of the cubic function, in packets per second cubed: `C` (RFC 9438 §5.1).
const C: f64 = 0.4;
/// Additive increase, in packets per round trip, that is as fair as Reno's with `BETA` instead of one half: `α_cubic`
/// (RFC 9438 §4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Maximum growth factor of the window per round trip (RFC 9438 §4.2).
const MAX_GROWTH: f64 = 1.5;
/// Maximum growth per acknowledgement in slow start, in packets: `L` (RFC 3465 §2.3).
const BYTE_COUNT_LIMIT: f64 = 2.0;
/// Maximum growth per acknowledgement in slow start after a timeout, in packets: `L` (RFC 3465 §2.3).
const BYTE_COUNT_LIMIT_AFTER_TIMEOUT: f64 = 1.0;

/// Controller of RFC 9438. Not paced by default: acknowledgements clock it.
///
/// ```
/// use timeous_cm::{Controller, Cubic, controller::Congestion};
/// use timeous_core::Instant;
/// let mut cubic = Cubic::new(1_000);
/// assert_eq!(cubic.window(), 10_000);
/// cubic.on_congestion(Instant::ZERO, Congestion { outstanding: 10_000, marked: false });
/// assert_eq!(cubic.window(), 7_000);
/// ```
#[derive(Clone, Debug)]
pub struct Cubic {
    mtu: f64,
    initial: f64,
    window: f64,
    /// `ssthresh`.
    threshold: f64,
    /// `W_max`: the window at the last congestion event, or less with fast convergence.
    peak: f64,
    /// `cwnd_prior`: the window when the threshold was last set.
    prior: f64,
    stage: Option<Stage>,
    /// Last time when the window was allowed to grow, while the curve's clock runs.
    grown_at: Option<Instant>,
    /// Application-limited: the curve's clock is stopped.
    stalled: bool,
    /// In slow start after a timeout, or before the first congestion avoidance stage that follows it.
    after_timeout: bool,
    /// State before the latest timeout, to be restored if it was spurious; cleared by any other congestion event.
    before_timeout: Option<Before>,
    /// HyStart++ state of the first slow start, if enabled.
    hystart: Option<HyStart>,
    fast_convergence: bool,
    paced: bool,
    goes_by_use: bool,
}

/// State that a timeout changes.
#[derive(Clone, Copy, Debug)]
struct Before {
    window: f64,
    threshold: f64,
    prior: f64,
    stage: Option<Stage>,
}

/// Congestion avoidance stage: from one congestion event to the next.
#[derive(Clone, Copy, Debug)]
struct Stage {
    /// `t_epoch`, moved forward by application-limited periods.
    began: Instant,
    /// `W_max`, the plateau of the function.
    plateau: f64,
    /// `K`: time until the plateau, in seconds.
    until_plateau: f64,
    /// `W_est`: Reno's window estimate.
    reno: f64,
}

impl Cubic {
    /// Creates a controller for packets of at most `mtu` bytes, with an initial window of ten packets (RFC 6928), as in Linux.
    pub fn new(mtu: u64) -> Self {
        let window = initial::rfc6928(mtu) as f64 / mtu as f64;
        Self {
            mtu: mtu as f64,
            initial: window,
            window,
            threshold: f64::INFINITY,
            peak: 0.0,
            prior: f64::INFINITY,
            stage: None,
            grown_at: None,
            stalled: false,
            after_timeout: false,
            before_timeout: None,
            hystart: None,
            fast_convergence: true,
            paced: false,
            goes_by_use: false,
        }
    }

    /// Sets the initial window, also used after an idle period, to `bytes`: see [`initial`].
    pub fn with_initial_window(mut self, bytes: u64) -> Self {
        self.initial = (bytes as f64 / self.mtu).max(1.0);
        self.window = self.initial;
        self
    }

    /// Disables fast convergence, for a path that no other flow shares (RFC 9438 §4.7).
    pub fn without_fast_convergence(mut self) -> Self {
        self.fast_convergence = false;
        self
    }

    /// Enables HyStart++ (RFC 9406): ends the first slow start when packets begin to queue, not only at a loss.
    pub fn with_hystart(mut self) -> Self {
        self.hystart = Some(HyStart::default());
        self
    }

    /// Enables congestion window validation (RFC 7661), for live streams that pause between frames: the window stays
    /// valid as far as it was recently used, and congestion reduces it rather than the bytes in flight. Linux and
    /// FreeBSD always reduce the window.
    pub fn for_streams_that_pause(mut self) -> Self {
        self.goes_by_use = true;
        self
    }

    /// Enables pacing: spreads a window over its round trip.
    pub fn with_pacing(mut self) -> Self {
        self.paced = true;
        self
    }

    pub(super) fn in_slow_start(&self) -> bool {
        // Where both are equal, as after a loss, RFC 5681 §3.1 leaves the choice.
        self.window < self.threshold
    }

    fn slow_start(&mut self, acked: Acked) {
        let limit = if self.after_timeout { BYTE_COUNT_LIMIT_AFTER_TIMEOUT } else { BYTE_COUNT_LIMIT };
        let growth = (acked.bytes as f64 / self.mtu).min(limit);
        let watch = self.hystart.as_mut().filter(|_| self.threshold == f64::INFINITY);
        match watch.map_or(Advice::Grow(1), |watch| watch.on_acked(acked.bytes, acked.outstanding, acked.rtt)) {
            Advice::Grow(divisor) => self.window = (self.window + growth / divisor as f64).min(self.threshold),
            Advice::Stop => {
                // "In this special case" W_max is where congestion avoidance begins (RFC 9438 §4.10).
                (self.threshold, self.prior, self.peak) = (self.window, self.window, self.window);
            }
        }
    }

    /// Grows the window (RFC 9438 §4.2 to §4.5). An acknowledgement of several packets counts as several acknowledgements.
    fn avoid_congestion(&mut self, now: Instant, packets: f64, srtt: Duration) {
        let window = self.window;
        // One acknowledgement adds at most one round trip's growth, however much it acknowledges.
        let packets = packets.min(window);
        let alpha = if self.stage.is_some_and(|stage| stage.reno >= self.prior) { 1.0 } else { ALPHA };
        let mut stage = self.stage.unwrap_or_else(|| self.begin_stage(now));
        stage.reno += alpha * packets / window;
        let elapsed = now.saturating_since(stage.began);
        self.window = if stage.at(elapsed) < stage.reno {
            // Reno-friendly region.
            stage.reno.max(window)
        } else {
            let target = stage.at(elapsed + srtt).clamp(window, MAX_GROWTH * window);
            (window + packets * (target - window) / window).min(target)
        };
        self.stage = Some(stage);
    }

    fn begin_stage(&mut self, now: Instant) -> Stage {
        if self.after_timeout {
            // RFC 9438 §4.8: W_max is where this stage begins.
            self.peak = self.window;
            self.after_timeout = false;
        }
        let plateau = self.peak.max(self.window);
        let until_plateau = cube_root((plateau - self.window) / C);
        Stage { began: now, plateau, until_plateau, reno: self.window }
    }

    /// Sets the threshold at a congestion event (RFC 9438 §4.6, §4.7). Returns the new window before its minimum is applied.
    fn lower_threshold(&mut self, outstanding: u64) -> f64 {
        // Bytes in flight beyond the window do not count (RFC 5681 §3.2, step 2).
        let lowered = BETA * (outstanding as f64 / self.mtu).min(self.window);
        self.prior = self.window;
        self.threshold = lowered.max(2.0);
        lowered
    }

    fn remember_peak(&mut self) {
        let sooner = self.fast_convergence && self.window < self.peak;
        self.peak = if sooner { self.window * (1.0 + BETA) / 2.0 } else { self.window };
    }

    fn end_stage(&mut self) {
        self.stage = None;
        self.grown_at = None;
        self.stalled = false;
    }

    /// Lets the curve's clock continue from where it stood when the window last grew (RFC 9438 §4.2, §5.8).
    fn resume(&mut self, now: Instant) {
        if std::mem::take(&mut self.stalled)
            && let (Some(stage), Some(at)) = (&mut self.stage, self.grown_at)
        {
            stage.began += now - at;
        }
        self.grown_at = Some(now);
    }
}

impl Stage {
    /// `W_cubic(t)` (RFC 9438 §4.2, figure 1).
    fn at(&self, elapsed: Duration) -> f64 {
        let from_plateau = elapsed.as_secs_f64() - self.until_plateau;
        C * from_plateau * from_plateau * from_plateau + self.plateau
    }
}

/// Cube root of a non-negative number by basic operations only: the system library's result may differ in the last
/// digit between machines.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent is a good first guess; each of Newton's iterations doubles the digits.
    let mut root = f64::from_bits(x.to_bits() / 3 + (1023 << 52) / 3 * 2);
    for _ in 0..6 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

impl Controller for Cubic {
    fn name(&self) -> &'static str {
        "cubic"
    }

    fn window(&self) -> u64 {
        (self.window * self.mtu) as u64
    }

    fn threshold(&self) -> Option<u64> {
        self.threshold.is_finite().then_some((self.threshold * self.mtu) as u64)
    }

    /// Adopts window and threshold. `W_max` is unknown, so that the next stage begins at the window (RFC 9438 §4.10).
    fn adopt(&mut self, window: u64, threshold: Option<u64>) {
        self.window = (window as f64 / self.mtu).max(1.0);
        self.threshold = threshold.map_or(f64::INFINITY, |threshold| threshold as f64 / self.mtu);
        (self.peak, self.prior) = (0.0, f64::INFINITY);
        self.after_timeout = false;
        self.end_stage();
    }

    fn end_slow_start(&mut self) {
        self.threshold = self.threshold.min(self.window);
    }

    fn goes_by_use(&self) -> bool {
        self.goes_by_use
    }

    fn grows_by_use_alone(&self) -> bool {
        self.goes_by_use && self.threshold.is_finite() && self.window < self.initial
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        if !acked.window_limited {
            self.stalled = true;
            return;
        }
        self.resume(now);
        if self.in_slow_start() {
            self.slow_start(acked);
        } else {
            self.avoid_congestion(now, acked.bytes as f64 / self.mtu, acked.srtt.unwrap_or(Duration::ZERO));
        }
    }

    fn on_congestion(&mut self, _: Instant, congestion: Congestion) {
        self.remember_peak();
        let lowered = self.lower_threshold(congestion.outstanding);
        self.window = lowered.max(if congestion.marked { 1.0 } else { 2.0 });
        self.after_timeout = false;
        self.before_timeout = None;
        self.end_stage();
    }

    /// Responds to a timeout (RFC 9438 §4.8). A lost handshake packet says nothing about the path's capacity.
    fn on_timeout(&mut self, _: Instant, timed_out: TimedOut) {
        if !timed_out.again && timed_out.outstanding > 0 {
            let Self { window, threshold, prior, stage, .. } = *self;
            self.before_timeout = Some(Before { window, threshold, prior, stage });
            self.lower_threshold(timed_out.outstanding);
        }
        self.window = 1.0;
        self.after_timeout |= timed_out.outstanding > 0;
        self.end_stage();
    }

    /// Restores the state (RFC 9438 §4.9.1). The curve's clock continues, without the time until the window grows again.
    fn on_spurious_timeout(&mut self, most: u64) {
        if let Some(Before { window, threshold, prior, stage }) = self.before_timeout.take() {
            self.window = window.min(most as f64 / self.mtu).max(self.window);
            (self.threshold, self.prior, self.stage) = (threshold, prior, stage);
            self.after_timeout = false;
        }
    }

    /// Applies the restart window of RFC 5681 §4.1; a shorter pause only stops the curve's clock.
    fn on_idle(&mut self, _: Instant, timeouts: u32) {
        self.stalled = true;
        if timeouts > 0 {
            self.window = self.window.min(self.initial);
            self.end_stage();
        }
    }

    fn rate(&self, srtt: Duration) -> Rate {
        pace::expected(self.window(), self.in_slow_start(), srtt)
    }

    fn pace(&self, srtt: Duration) -> Rate {
        if self.paced { pace::above(self.window(), self.in_slow_start(), srtt) } else { Rate::MAX }
    }
}

#[cfg(test)]
mod tests;
