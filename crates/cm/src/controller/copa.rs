//! Copa (Arun & Balakrishnan, NSDI 2018), to compare with: delay-based congestion control that keeps a few packets in the bottleneck queue.
//!
//! - The target queue is `room` packets (the paper's `1/δ`, two). Below it the window grows by `velocity × room`
//!   packets per round trip, above it the window shrinks by as much. The velocity doubles with each round trip in the
//!   same direction. So the queue empties every few round trips, which shows the base RTT.
//! - A queue that was not nearly empty for five round trips is filled by cross traffic (mode switching, §2.2). `room` is then
//!   AIMD's: one more per round trip, half at a loss. Where a path holds a few packets, it takes its own queue for others'.
//!
//! Beyond the paper: responses to marks (RFC 3168), to timeouts (RFC 5681) and to idle periods (RFC 2861), and no growth while the
//! application limits the window (RFC 7661).

mod velocity;

use timeous_core::{Duration, Instant, Rate};

use super::queueing::{Look, Queueing};
use super::{Acked, Congestion, Controller, TimedOut, initial, pace};
use velocity::Velocity;

/// Window of the minimum RTT filter (Arun & Balakrishnan §2.1).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Target queue in default mode, in packets: `1/δ` with a `δ` of 0.5, and its minimum in competitive mode (Arun & Balakrishnan §2.2).
const MIN_ROOM: f64 = 2.0;
/// Round trips without a nearly empty queue after which cross traffic is assumed (Arun & Balakrishnan §2.2).
const CROSS_TRAFFIC_ROUNDS: u64 = 5;
/// Share of the maximum queueing delay of four round trips below which the queue is nearly empty (Arun & Balakrishnan §2.2).
const NEARLY_EMPTY_RATIO: f64 = 0.1;
/// Factor of `room` after a loss in competitive mode (Arun & Balakrishnan §2.2).
const LOSS_FACTOR: f64 = 0.5;
/// Factor of the window after an ECN mark: `beta_{ecn}` (RFC 8511 §3).
const MARK_FACTOR: f64 = 0.8;
/// Minimum congestion window, in packets, also after a timeout (RFC 9002 §4.8).
const MIN_WINDOW: f64 = 2.0;
/// Pacing rate, in windows per standing RTT (Arun & Balakrishnan §2.1).
const PACING_GAIN: f64 = 2.0;

/// Copa controller.
///
/// ```
/// use timeous_cm::{Controller, Copa, controller::Acked};
/// use timeous_core::{Duration, Instant};
/// let mut copa = Copa::new(1_000);
/// let start = copa.window();
/// let rtt = Some(Duration::from_millis(50));
/// copa.on_acked(Instant::ZERO, Acked { bytes: 1_000, outstanding: 0, rtt, srtt: rtt, window_limited: true });
/// assert_eq!(copa.window(), start + 1_000, "nothing waits");
/// ```
#[derive(Clone, Debug)]
pub struct Copa {
    mtu: f64,
    /// Congestion window in packets, like all amounts below.
    window: f64,
    path: Queueing,
    is_starting: bool,
    velocity: Velocity,
    /// Target queue in competitive mode: cross traffic fills the queue.
    competes: Option<f64>,
    emptied_at: Option<Instant>,
}

impl Copa {
    /// Creates a controller for packets of at most `mtu` bytes, with the initial window of RFC 6928.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu: mtu as f64,
            window: initial::rfc6928(mtu) as f64 / mtu as f64,
            path: Queueing::new(mtu, MIN_RTT_WINDOW),
            is_starting: true,
            velocity: Velocity::INITIAL,
            competes: None,
            emptied_at: None,
        }
    }

    fn room(&self) -> f64 {
        self.competes.unwrap_or(MIN_ROOM)
    }

    /// Whether less than the target waits: `λ ≤ 1/(δ·d_q)`, as the window that waits, in packets.
    fn is_below_target(&self, look: &Look) -> bool {
        self.window * look.queued.as_secs_f64() <= self.room() * look.standing.as_secs_f64()
    }

    /// Decides whether others fill the queue.
    fn judge(&mut self, now: Instant, look: &Look) {
        if self.is_starting || look.waited.as_secs_f64() <= NEARLY_EMPTY_RATIO * look.most.as_secs_f64() {
            (self.emptied_at, self.competes) = (Some(now), None);
        } else if now.saturating_since(*self.emptied_at.get_or_insert(now)) > look.srtt * CROSS_TRAFFIC_ROUNDS {
            self.competes.get_or_insert(MIN_ROOM);
        }
    }
}

impl Controller for Copa {
    fn name(&self) -> &'static str {
        "copa"
    }

    fn window(&self) -> u64 {
        (self.window * self.mtu) as u64
    }

    fn adopt(&mut self, window: u64, threshold: Option<u64>) {
        self.window = (window as f64 / self.mtu).max(1.0);
        self.is_starting = threshold.is_none_or(|least| window < least);
        self.velocity = Velocity::INITIAL;
    }

    fn end_slow_start(&mut self) {
        self.is_starting = false;
    }

    fn heeds_recovery(&self) -> bool {
        false
    }

    fn is_among_others(&self) -> bool {
        self.competes.is_some()
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        let packets = acked.bytes as f64 / self.mtu;
        let look = self.path.acked(now, &acked);
        if let Some(look) = &look {
            self.judge(now, look);
        }
        let grows = look.is_none_or(|look| self.is_below_target(&look));
        if self.is_starting && grows {
            self.window += if acked.window_limited { packets } else { 0.0 };
            return;
        }
        self.is_starting = false;
        let Some(look) = look else { return };
        if let Some(room) = &mut self.competes {
            *room += packets / self.window;
        }
        let velocity = self.velocity.towards(now, grows, self.window, look.srtt);
        let step = velocity * self.room() * packets / self.window;
        if !grows {
            self.window = (self.window - step).max(MIN_WINDOW);
        } else if acked.window_limited {
            // "cwnd is allowed to double per RTT" at most.
            self.window += step.min(packets);
        }
    }

    fn on_congestion(&mut self, _: Instant, congestion: Congestion) {
        if congestion.marked {
            self.window = (self.window * MARK_FACTOR).max(MIN_WINDOW.min(self.window));
            (self.is_starting, self.velocity) = (false, Velocity::INITIAL);
        } else if let Some(room) = &mut self.competes {
            *room = (*room * LOSS_FACTOR).max(MIN_ROOM);
        }
    }

    /// Falls back to two packets and slow start.
    fn on_timeout(&mut self, _: Instant, _: TimedOut) {
        self.window = MIN_WINDOW.min(self.window);
        (self.is_starting, self.velocity, self.competes, self.emptied_at) = (true, Velocity::INITIAL, None, None);
        self.path.after_silence();
    }

    /// Halves the window per timeout (RFC 2861 §3.2); slow start then goes on until a queue builds up.
    fn on_idle(&mut self, _: Instant, timeouts: u32) {
        self.path.paused();
        if timeouts == 0 {
            return;
        }
        let least = self.window.min(initial::rfc6928(self.mtu as u64) as f64 / self.mtu);
        self.window = (0..timeouts.min(64)).fold(self.window, |window, _| window / 2.0).max(least);
        (self.is_starting, self.velocity, self.competes, self.emptied_at) = (true, Velocity::INITIAL, None, None);
        self.path.after_silence();
    }

    fn rate(&self, srtt: Duration) -> Rate {
        pace::expected(self.window(), self.is_starting, srtt)
    }

    fn pace(&self, srtt: Duration) -> Rate {
        let standing = self.path.look().map_or(srtt, |look| look.standing);
        Rate::from_bytes_in((self.window * self.mtu * PACING_GAIN) as u64, standing)
    }
}

#[cfg(test)]
mod tests;
