//! Congestion control of live streams by the model of the path.
//!
//! - The window is what the path holds at its capacity in a base RTT, plus a target queue: one
//!   packet, and the mean error of the model's predictions, so that a link whose rate varies does
//!   not run empty. A longer queue reduces the window to that at once.
//! - Without a queue the window grows to what fits, then by one packet per round trip.
//! - Packets leave so fast that a window builds up at most the target queue: on a long path hardly
//!   faster than the capacity.
//! - After a pause the window is that of the best capacity of ten seconds.
//! - A loss alone is no congestion. If the queue overflowed, the target fits it for ten seconds,
//!   without growth beyond it. A loss rate above 10 % reduces the window, again every 300 packets
//!   (RFC 8085 §3.1); a mark by a fifth (RFC 8511).
//! - A timeout leaves two packets until the next acknowledgement, and a single one with at most
//!   half of the window in flight nothing (RFC 9002 §6.2.1); the fourth is persistent congestion.
//! - Where others fill the queue, it competes with CUBIC's window.

mod beside;
mod rival;

use timeous_core::{ArrivalModel, Duration, Instant, Rate};

use super::extreme::Greatest;
use super::queueing::{Look, Queueing};
use super::{Acked, Congestion, Controller, Sent, TimedOut, initial};
use beside::{Beside, Found};

/// Window of the minimum RTT filter and of the best capacity, and time for which an overflow counts
/// (Arun & Balakrishnan §2.1).
const MEMORY: Duration = Duration::from_secs(10);
/// Minimum target queueing delay: timer granularity is no queue. A higher value delays frames on
/// fast links.
const MIN_TARGET: Duration = Duration::from_millis(4);
/// Minimum congestion window, in packets (RFC 9002 §4.8).
const MIN_WINDOW: f64 = 2.0;
/// Maximum growth of the window per round trip beyond what fits
/// (docs/decisions/live-controller.md). A higher value overshoots.
const MAX_GROWTH: f64 = 0.125;
/// Range of the pacing gain. The minimum keeps the window the limit; the maximum is slow start's
/// (RFC 9002 §7.7).
const PACE_GAIN: [f64; 2] = [1.05, 2.0];
/// Pacing gain in competition, as of other window-based controllers.
const PACE_GAIN_BESIDE: f64 = 1.2;
/// Divisor of the queueing delay at an overflow: the target then
/// (docs/decisions/live-controller.md).
const OVERFLOW_DIVISOR: u64 = 4;
/// Share of the longest recent queueing delay from which the queue counts as full.
const FULL_QUEUE_RATIO: f64 = 0.75;
/// Share of a queue that this host's packets fill, from which its overflow is theirs
/// (docs/decisions/live-controller.md). With a lower value a loss while others, or a link that
/// stands still, delay packets ends growth for ten seconds.
const OWN_QUEUE_RATIO: f64 = 0.5;
/// Loss rate above which losses are congestion (RFC 8085 §3.1), and the range of the factor of the
/// window then.
const MAX_LOSS_RATE: f64 = 0.1;
const LOSS_FACTORS: [f64; 2] = [0.5, 0.7];
/// Factor of the window after an ECN mark: `beta_{ecn}` (RFC 8511 §3).
const MARK_FACTOR: f64 = 0.8;
/// Consecutive timeouts beyond which congestion is persistent: `kPersistentCongestionThreshold`
/// (RFC 9002 §7.6.1).
const PERSISTENT_TIMEOUTS: u32 = 3;
/// Consecutive RTT samples with a queue of a packet or of `MIN_TARGET` that end slow start.
const SLOW_START_EXIT_SAMPLES: u32 = 3;

/// Controller of live streams by the path model.
///
/// ```
/// use timeous_cm::{Controller, Live};
/// assert_eq!(Live::new(1_000).window(), 10_000);
/// ```
#[derive(Clone, Debug)]
pub struct Live {
    mtu: f64,
    /// Congestion window, in bytes, like all amounts below.
    window: f64,
    path: Queueing,
    /// Capacity by the model, in bytes per second, its maximum, and the mean error of predictions.
    capacity: Option<f64>,
    best: Greatest<f64>,
    /// Whether packets that wait for each other would be seen.
    is_exact: bool,
    error: Duration,
    /// Slow start: consecutive RTT samples above the target queue.
    start: Option<u32>,
    /// Until when the target fits a queue that overflowed, and that target.
    full: Option<(Instant, Duration)>,
    is_lossy: bool,
    /// Silence after a timeout: the window before it, and the number of timeouts.
    silence: Option<(f64, u32)>,
    beside: Beside,
}

impl Live {
    /// Creates a controller for packets of at most `mtu` bytes, with the initial window of RFC
    /// 6928.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu: mtu as f64,
            window: initial::rfc6928(mtu) as f64,
            path: Queueing::new(mtu, MEMORY),
            capacity: None,
            best: Greatest::default(),
            is_exact: false,
            error: Duration::ZERO,
            start: Some(0),
            full: None,
            is_lossy: false,
            silence: None,
            beside: Beside::default(),
        }
    }

    /// Capacity of the path; where the transport does not report exact arrivals, the delivery rate of the last
    /// round.
    fn capacity(&self) -> Option<f64> {
        let delivered = if self.is_exact { None } else { self.path.rate() };
        self.capacity.or(delivered).filter(|&rate| rate > 0.0)
    }

    /// Whether no packet of this host has waited for another one of it: what delays them is no queue of theirs.
    fn has_met_no_queue(&self) -> bool {
        self.is_exact && self.capacity.is_none()
    }

    fn packet_time(&self) -> Duration {
        self.capacity().map_or(Duration::ZERO, |rate| Duration::from_secs_f64(self.mtu / rate))
    }

    fn least_target(&self) -> Duration {
        self.packet_time().max(MIN_TARGET)
    }

    /// Target queueing delay.
    fn target(&self) -> Duration {
        let wants = self.least_target() + self.error;
        self.full.map_or(wants, |(_, most)| wants.min(most))
    }

    /// Window that the path holds with the target queue.
    fn fits(&self, look: &Look) -> Option<f64> {
        let rate = self.capacity()?;
        Some((rate * (look.base + self.target()).as_secs_f64() + self.mtu).max(self.least()))
    }

    fn least(&self) -> f64 {
        MIN_WINDOW * self.mtu
    }

    fn begin(&mut self, acked: &Acked, look: &Look, in_a_row: u32) {
        // Not the whole target: the first predictions err most, and a window that doubles fills the queue meanwhile.
        let is_queued =
            !self.has_met_no_queue() && look.waited.saturating_sub(self.packet_time()) > self.least_target();
        let in_a_row = if is_queued { in_a_row + 1 } else { 0 };
        if in_a_row >= SLOW_START_EXIT_SAMPLES {
            self.window = self.fits(look).unwrap_or((self.window / 2.0).max(self.least()));
            self.start = None;
            return;
        }
        self.start = Some(in_a_row);
        if acked.window_limited {
            self.window += acked.bytes as f64;
        }
    }

    fn steer(&mut self, acked: &Acked, look: &Look) {
        // Where nothing of this host has filled a queue, the window grows as beyond what fits.
        let fits = if self.has_met_no_queue() { Some(0.0) } else { self.fits(look) };
        let Some(fits) = fits else { return };
        let bytes = acked.bytes as f64;
        if !self.has_met_no_queue() && look.queued.saturating_sub(self.packet_time()) > self.target() {
            self.window = self.window.min(fits);
        } else if !acked.window_limited || self.is_lossy {
        } else if self.window < fits {
            self.window = (self.window + bytes).min(fits);
        } else if self.full.is_none() {
            self.window += bytes * (self.mtu / self.window).min(MAX_GROWTH);
        }
    }

    /// Reduces the window if the recent loss rate is too high.
    fn mind_losses(&mut self) {
        let Some(lost) = self.path.take_loss_share() else { return };
        self.is_lossy = lost > MAX_LOSS_RATE;
        if self.is_lossy && !self.beside.competes() {
            let [least, most] = LOSS_FACTORS;
            self.window = (self.window * (1.0 - lost).clamp(least, most)).max(self.least());
        }
    }

    /// Responds to a loss with `outstanding` bytes in flight: if about as much waits as the recent maximum, and at least half of it is
    /// ours, our queue overflowed.
    fn overflowed(&mut self, now: Instant, look: &Look, outstanding: u64) {
        let is_most = look.waited.as_secs_f64() >= FULL_QUEUE_RATIO * look.peak.as_secs_f64();
        let waited = look.waited.saturating_sub(self.packet_time());
        let is_own = !self.has_met_no_queue()
            && self.capacity().is_none_or(|rate| outstanding as f64 >= OWN_QUEUE_RATIO * waited.as_secs_f64() * rate);
        if is_most && is_own && waited > self.packet_time() / 2 {
            self.full = Some((now + MEMORY, waited / OVERFLOW_DIVISOR));
            self.start = None;
            self.window = self.fits(look).map_or(self.window, |fits| self.window.min(fits));
        }
    }
}

impl Controller for Live {
    fn name(&self) -> &'static str {
        "live"
    }

    fn window(&self) -> u64 {
        self.window as u64
    }

    fn adopt(&mut self, window: u64, threshold: Option<u64>) {
        self.window = window as f64;
        self.start = threshold.is_none_or(|least| window < least).then_some(0);
    }

    fn end_slow_start(&mut self) {
        self.start = None;
    }

    fn heeds_recovery(&self) -> bool {
        false
    }

    fn is_among_others(&self) -> bool {
        self.beside.is_known()
    }

    fn heeds_model(&self) -> bool {
        true
    }

    fn on_model(&mut self, now: Instant, model: &ArrivalModel) {
        (self.error, self.is_exact) = (model.error, model.is_exact);
        if let Some(rate) = model.capacity {
            // The model's capacity includes headers, and windows do not.
            let rate = rate.as_bps() as f64 / 8.0 * self.mtu / (self.mtu + f64::from(model.headers));
            self.best.measured(now, MEMORY, rate);
            self.capacity = Some(rate);
        }
    }

    /// Starts as at the beginning (RFC 9000 §9.4), from the window so far if that is larger.
    fn on_another_path(&mut self) {
        let new = Self::new(self.mtu as u64);
        *self = Self { window: new.window.max(self.window), ..new };
    }

    fn on_sent(&mut self, now: Instant, sent: Sent) {
        if sent.app_limited {
            self.beside.left_unused(now);
        }
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        self.full.take_if(|(until, _)| now >= *until);
        if let Some((window, timeouts)) = self.silence.take()
            && timeouts <= PERSISTENT_TIMEOUTS
        {
            (self.window, self.start) = (self.window.max(window), None);
        }
        let Some(look) = self.path.acked(now, &acked) else {
            if self.start.is_some() && acked.window_limited {
                self.window += acked.bytes as f64;
            }
            return;
        };
        self.mind_losses();
        let beyond = look.queued.saturating_sub(self.packet_time());
        // A random loss over a short queue makes the target shorter than the queue varies.
        let target = self.target().max(self.least_target());
        let found = Found { look: &look, beyond, target, window: self.window, mtu: self.mtu };
        if let Some(window) = self.beside.acked(now, &acked, self.start.is_some(), &found) {
            self.window = window.max(self.least());
        } else if let Some(in_a_row) = self.start {
            self.begin(&acked, &look, in_a_row);
        } else {
            self.steer(&acked, &look);
        }
    }

    fn on_overtaken(&mut self, now: Instant, by: Duration) {
        self.path.overtaken(now, by);
    }

    fn on_lost(&mut self, _: Instant, bytes: u64) {
        self.path.lost(bytes);
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion) {
        if self.beside.congested(now, congestion) {
            return;
        }
        if congestion.marked {
            (self.window, self.start) = ((self.window * MARK_FACTOR).max(self.least().min(self.window)), None);
        } else if let Some(look) = self.path.look() {
            self.overflowed(now, &look, congestion.outstanding);
        }
    }

    fn on_timeout(&mut self, now: Instant, timed_out: TimedOut) {
        self.beside.timed_out(now, timed_out);
        let (window, timeouts) = self.silence.map_or((self.window, 1), |(window, timeouts)| (window, timeouts + 1));
        self.silence = Some((window, timeouts));
        if timed_out.again || timed_out.outstanding == 0 || timed_out.outstanding * 2 > self.window() {
            self.window = self.least().min(self.window);
            self.path.after_silence();
        }
        if timeouts > PERSISTENT_TIMEOUTS {
            self.start = Some(0);
        }
    }

    fn on_spurious_timeout(&mut self, _: u64) {
        self.beside.timed_out_for_nothing();
        if let Some((window, _)) = self.silence.take() {
            self.window = window;
        }
    }

    /// Halves the window per timeout (RFC 2861 §3.2); slow start then goes on until a queue builds
    /// up.
    fn on_idle(&mut self, now: Instant, timeouts: u32) {
        self.path.paused();
        if timeouts == 0 {
            if let (Some(look), Some(best)) = (self.path.look(), self.best.get()) {
                self.window = self.window.max(best * look.base.as_secs_f64() + self.mtu);
            }
            return;
        }
        self.beside.idle(now, timeouts);
        let least = self.window.min(initial::rfc6928(self.mtu as u64) as f64);
        self.window = (0..timeouts.min(64)).fold(self.window, |window, _| window / 2.0).max(least);
        (self.start, self.silence) = (Some(0), None);
        self.path.after_silence();
    }

    /// Using half of the window suffices (RFC 7661 §4.3): a paced stream never fills it.
    fn is_used(&self, under_way: u64) -> bool {
        under_way.saturating_mul(2) >= self.window()
    }

    fn rate(&self, srtt: Duration) -> Rate {
        let of_window = Rate::from_bytes_in(self.window(), srtt);
        match self.capacity() {
            _ if self.beside.competes() => of_window,
            _ if self.start.is_some() => Rate::from_bytes_in(self.window().saturating_mul(2), srtt),
            Some(rate) => Rate::from_bps((rate * 8.0) as u64),
            None => of_window,
        }
    }

    fn pace(&self, srtt: Duration) -> Rate {
        let of_window = self.window / srtt.as_secs_f64().max(1e-6);
        let [least, most] = PACE_GAIN;
        let rate = if self.beside.competes() {
            of_window * PACE_GAIN_BESIDE
        } else if self.start.is_some() {
            of_window.max(self.capacity().unwrap_or(0.0)) * most
        } else {
            let base = self.path.base().map_or(0.0, Duration::as_secs_f64).max(1e-6);
            let gain = (1.0 + self.target().as_secs_f64() / base).clamp(least, most);
            of_window.max(self.capacity().unwrap_or(0.0)) * gain
        };
        Rate::from_bps((rate * 8.0) as u64)
    }
}

#[cfg(test)]
mod tests;
