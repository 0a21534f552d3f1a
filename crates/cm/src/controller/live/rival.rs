//! Window in competition: CUBIC's (RFC 9438), with extra credit for a source that sends in bursts.
//!
//! Fairness is judged by the mean. A keyframe is a burst as large as a window, and between keyframes the stream uses
//! less than its share. What CUBIC's window would have allowed and the application did not use is saved and may later
//! be in flight in addition, up to a second window: over a group of pictures the stream has one flow's share.
//!
//! A burst into a full queue loses packets whatever the stream's share, which keeps CUBIC's window too small for it. If
//! the source limits the stream, a burst may therefore have in flight what arrives at the recently measured link rate,
//! as in BBR, regardless of losses. The mean over the saved round trips stays bounded: by one and a half times CUBIC's
//! window or half of the link (the even share beside one other flow), whichever is more. One such stream thus leaves a
//! CUBIC flow at least a quarter of the link, half of its even share.

use timeous_core::{Duration, Instant};

use super::super::cubic::Cubic;
use super::super::extreme::Greatest;
use super::super::{Acked, Congestion, Controller, TimedOut};
use crate::carried::sampling_period;

/// Bound of the mean in flight, in CUBIC windows or even shares (option 4 of docs/decisions/burst-allowance.md): bursts
/// lose more than an even flow does.
const MAX_MEAN_SHARES: f64 = 1.5;
/// Maximum credit, in shares times round trips. Chosen by us: about a group of pictures. A higher value lets bursts
/// exceed the mean for longer.
const MAX_CREDIT: f64 = 20.0;
/// Maximum debt, in shares times round trips. Chosen by us; docs/decisions/burst-allowance.md has figures for none. A
/// higher value keeps a stream that has taken too much from bursts for longer.
const MAX_DEBT: f64 = 3.0;
/// Round trips after an application-limited moment for which the source counts as the limit
/// (docs/decisions/app-limited-detection.md).
const APP_LIMITED_ROUNDS: u64 = 10;
/// Bytes in flight of a burst, in multiples of the link rate times the smoothed RTT (option 4 of
/// docs/decisions/burst-allowance.md).
const BURST_GAIN: f64 = 1.5;
/// Even share beside one other flow, as a share of the link (docs/decisions/burst-allowance.md).
const EVEN_SHARE: f64 = 0.5;
/// Minimum duration of a burst (docs/decisions/burst-allowance.md). Bursts arrive at nearly the link rate, since little
/// cross traffic gets between their packets.
const MIN_BURST: Duration = Duration::from_millis(40);
/// Window of the maximum filter for burst rates (docs/decisions/burst-allowance.md).
const BURST_RATE_WINDOW: Duration = Duration::from_secs(10);

/// Maximum delivery rate over the duration of a burst.
#[derive(Clone, Debug)]
struct Fastest {
    began: Instant,
    bytes: u64,
    of_late: Greatest<f64>,
}

impl Fastest {
    fn since(now: Instant) -> Self {
        Self { began: now, bytes: 0, of_late: Greatest::default() }
    }

    fn came(&mut self, now: Instant, bytes: u64) {
        self.bytes += bytes;
        let lasted = now.saturating_since(self.began);
        if lasted < MIN_BURST {
            return;
        }
        // An interval with a gap in it is no burst.
        if lasted < MIN_BURST * 2 {
            self.of_late.measured(now, BURST_RATE_WINDOW, self.bytes as f64 / lasted.as_secs_f64());
        }
        (self.began, self.bytes) = (now, 0);
    }

    /// Bytes delivered within `time` at the maximum rate.
    fn in_time(&self, time: Duration) -> f64 {
        self.of_late.get().unwrap_or(0.0) * time.as_secs_f64()
    }
}

/// Window in competition. It also runs for a while after it, since competing flows empty the queue now and then before
/// they fill it again.
#[derive(Clone, Debug)]
pub(super) struct Rival {
    cubic: Cubic,
    /// Last time in competition.
    pub(super) at: Instant,
    /// Credit in bytes times round trips: what the fair share allowed and the application did not use. Negative: debt.
    saved: f64,
    counted_at: Instant,
    /// Maximum of the bytes in flight in the sampling period (RFC 7661 §4.2).
    used: Greatest<u64>,
    link: Fastest,
    /// Last application-limited moment.
    free_at: Option<Instant>,
    /// The source limits the stream.
    is_bounded: bool,
    /// Bytes in flight allowed for a burst.
    burst: u64,
}

impl Rival {
    /// Creates the window with what cross traffic has left of the window before. It begins in slow start, as those flows
    /// did.
    pub(super) fn new(now: Instant, mtu: u64, window: u64) -> Self {
        let mut cubic = Cubic::new(mtu);
        cubic.adopt(window, None);
        let (used, link) = (Greatest::default(), Fastest::since(now));
        Self { cubic, at: now, saved: 0.0, counted_at: now, used, link, free_at: None, is_bounded: false, burst: 0 }
    }

    /// Window in bytes, including the extra allowance of bursts.
    pub(super) fn window(&self) -> u64 {
        let window = self.cubic.window();
        if !self.is_bounded {
            return window;
        }
        (window + (self.saved.max(0.0) as u64).min(window)).max(self.burst)
    }

    /// Notes that the application had nothing to send although window and pace allowed it.
    pub(super) fn left_unused(&mut self, now: Instant) {
        self.free_at = Some(now);
    }

    /// Handles an acknowledgement; `holds` if this window is in effect. It grows while at least half of it was used in
    /// the sampling period (RFC 7661 §4.3), which includes the time between bursts.
    pub(super) fn acked(&mut self, now: Instant, acked: &Acked, holds: bool) {
        self.link.came(now, acked.bytes);
        if let Some(srtt) = acked.srtt.filter(|srtt| !srtt.is_zero()) {
            let under_way = acked.outstanding + acked.bytes;
            self.used.measured(now, sampling_period(srtt), under_way);
            if holds {
                self.save(now, srtt, under_way);
            }
            self.bound(now, srtt);
        }
        self.counted_at = now;
        let window_limited = 2 * self.used.get().unwrap_or(0) >= self.cubic.window();
        self.cubic.on_acked(now, Acked { window_limited, ..*acked });
    }

    fn save(&mut self, now: Instant, srtt: Duration, under_way: u64) {
        let share = (self.cubic.window() as f64).max(self.link.in_time(srtt) * EVEN_SHARE);
        let round_trips = now.saturating_since(self.counted_at).as_secs_f64() / srtt.as_secs_f64();
        let saved = self.saved + (share * MAX_MEAN_SHARES - under_way as f64) * round_trips;
        self.saved = saved.clamp(-share * MAX_DEBT, share * MAX_CREDIT);
    }

    /// Updates whether the source limits the stream, and the allowance of bursts. Before the first loss slow start suffices.
    fn bound(&mut self, now: Instant, srtt: Duration) {
        self.is_bounded = self.free_at.is_some_and(|at| now.saturating_since(at) <= srtt * APP_LIMITED_ROUNDS);
        let is_fair = self.saved > 0.0 && !self.cubic.in_slow_start();
        self.burst = if is_fair { (self.link.in_time(srtt) * BURST_GAIN) as u64 } else { 0 };
    }

    /// Responds to congestion from the used amount, since little is in flight between bursts (RFC 7661 §4.4.1). If
    /// another window was in effect, the amount is CUBIC's own.
    pub(super) fn congested(&mut self, now: Instant, congestion: Congestion, holds: bool) {
        let used = self.used.get().unwrap_or(0).max(congestion.outstanding);
        let outstanding = if holds { used } else { self.cubic.window() };
        self.cubic.on_congestion(now, Congestion { outstanding, ..congestion });
    }

    pub(super) fn timed_out(&mut self, now: Instant, timed_out: TimedOut) {
        self.cubic.on_timeout(now, timed_out);
        (self.saved, self.burst) = (0.0, 0);
    }

    pub(super) fn timed_out_for_nothing(&mut self) {
        self.cubic.on_spurious_timeout(u64::MAX);
    }

    pub(super) fn idle(&mut self, now: Instant, timeouts: u32) {
        self.cubic.on_idle(now, timeouts);
        (self.saved, self.burst, self.counted_at) = (0.0, 0, now);
    }
}
