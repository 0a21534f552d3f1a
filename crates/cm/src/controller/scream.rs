//! SCReAMv2's network congestion control (draft-johansson-ccwg-rfc8298bis-screamv2-01, a successor of RFC 8298).
//!
//! The reference window grows by a packet plus a fiftieth of itself per round trip, more slowly near the window of the
//! last congestion. It shrinks in proportion to the queueing delay beyond half of its target, by 0.7 at losses and by
//! 0.8 at marks.
//!
//! Differences: without receiver timestamps the queueing delay is the RTT above the minimum of ten minutes. The
//! reference window itself is the limit, without the draft's headroom for large frames: excess data waits in the ring,
//! where it can still be dropped. Marks are classic ECN, since packets are sent as ECT(0). The delay target adapts to
//! cross traffic by RFC 8298 §4.1.2.3 (Competing Flows Compensation), which the draft keeps.

use timeous_core::{Duration, Instant, Rate};

use super::queueing::{Look, Queueing};
use super::{Acked, Congestion, Controller, TimedOut};

/// Window of the base RTT: ten minutes (RFC 6817 §3.4.2).
const BASE_RTT_WINDOW: Duration = Duration::from_secs(600);
/// Minimum of the queueing delay target, in seconds (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const QDELAY_TARGET_LO: f64 = 0.06;
/// Maximum of the queueing delay target, in seconds (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const QDELAY_TARGET_HI: f64 = 0.4;
/// Minimum reference window, in bytes (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const MIN_REF_WND: f64 = 3_000.0;
/// Factor of the reference window after a loss (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const BETA_LOSS: f64 = 0.7;
/// Factor of the reference window after an ECN mark (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const BETA_ECN: f64 = 0.8;
/// Weight of a new sample in the average queueing delay
/// (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const QDELAY_AVG_G: f64 = 0.25;
/// Time of careful growth after congestion, in seconds (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const POST_CONGESTION_DELAY: f64 = 4.0;
/// Maximum multiplicative growth per round trip, as a share of the reference window
/// (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const MUL_INCREASE_FACTOR: f64 = 0.02;
/// RTT below which growth is slower, and minimum time between congestion responses
/// (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const VIRTUAL_RTT: Duration = Duration::from_millis(25);
/// Factor of the pacing rate over the reference window per RTT
/// (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const PACKET_PACING_HEADROOM: f64 = 1.5;
/// Maximum reference window that may grow, in multiples of the maximum bytes in flight
/// (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.1.1).
const BYTES_IN_FLIGHT_HEAD_ROOM: f64 = 2.0;
/// Minimum time between updates of the inflection point `ref_wnd_i`
/// (draft-johansson-ccwg-rfc8298bis-screamv2-01 §4.2.2).
const INFLECTION_INTERVAL: Duration = Duration::from_millis(250);
/// Queueing delay samples of the variance that shows cross traffic (RFC 8298 §4.1.2.3).
const VARIANCE_SAMPLES: usize = 200;
/// Queueing delay samples of the mean that raises the target (RFC 8298 §4.1.2.3).
const MEAN_SAMPLES: usize = 50;
/// Interval of these samples. Chosen by us, equal to that of the queueing delay fraction (RFC 8298 §4.1.2), since
/// §4.1.2.3 specifies none. A higher value detects cross traffic later.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// SCReAMv2 controller. Names are the draft's.
///
/// ```
/// use timeous_cm::{Controller, Scream, controller::Congestion};
/// use timeous_core::Instant;
/// let mut scream = Scream::new(1_000);
/// scream.adopt(20_000, None);
/// scream.on_congestion(Instant::ZERO, Congestion { outstanding: 20_000, marked: true });
/// assert_eq!(scream.window(), 16_000);
/// ```
#[derive(Clone, Debug)]
pub struct Scream {
    mss: f64,
    ref_wnd: f64,
    ref_wnd_i: f64,
    inflected_at: Option<Instant>,
    congested_at: Option<Instant>,
    path: Queueing,
    qdelay_avg: f64,
    averaged_at: Option<Instant>,
    qdelay_target: f64,
    norms: RelativeQueueDelays,
    /// Maximum bytes in flight in this round trip and in the previous one.
    flight: [f64; 2],
    round_began: Option<Instant>,
}

/// Recent queueing delays, as multiples of the low target.
#[derive(Clone, Debug, Default)]
struct RelativeQueueDelays {
    values: std::collections::VecDeque<f64>,
    taken_at: Option<Instant>,
    loss_rate: f64,
}

impl RelativeQueueDelays {
    /// Mean of the recent samples, and variance of all.
    fn moments(&self) -> (f64, f64) {
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
            if count > 0.0 { sum / count } else { 0.0 }
        };
        let of_all = mean(&mut self.values.iter().copied());
        let short = mean(&mut self.values.iter().rev().take(MEAN_SAMPLES).copied());
        (short, mean(&mut self.values.iter().map(|value| (value - of_all) * (value - of_all))))
    }
}

impl Scream {
    /// Creates a controller for packets of at most `mtu` bytes.
    pub fn new(mtu: u64) -> Self {
        Self {
            mss: mtu as f64,
            ref_wnd: MIN_REF_WND.max(mtu as f64),
            ref_wnd_i: 1.0,
            inflected_at: None,
            congested_at: None,
            path: Queueing::new(mtu, BASE_RTT_WINDOW),
            qdelay_avg: 0.0,
            averaged_at: None,
            qdelay_target: QDELAY_TARGET_LO,
            norms: RelativeQueueDelays::default(),
            flight: [0.0; 2],
            round_began: None,
        }
    }

    fn least(&self) -> f64 {
        MIN_REF_WND.max(self.mss)
    }

    fn average(&mut self, now: Instant, look: &Look) {
        if self.averaged_at.is_some_and(|at| now.saturating_since(at) < look.srtt) {
            return;
        }
        self.averaged_at = Some(now);
        let qdelay = look.waited.as_secs_f64();
        self.qdelay_avg = if qdelay < self.qdelay_avg {
            qdelay
        } else {
            QDELAY_AVG_G * qdelay + (1.0 - QDELAY_AVG_G) * self.qdelay_avg
        };
    }

    /// Adapts the delay target to cross traffic: it rises to the queueing delay (RFC 8298 §4.1.2.3).
    fn mind_others(&mut self, now: Instant, look: &Look) {
        if self.norms.taken_at.is_some_and(|at| now.saturating_since(at) < SAMPLE_INTERVAL) {
            return;
        }
        self.norms.taken_at = Some(now);
        self.norms.values.push_back(look.waited.as_secs_f64() / QDELAY_TARGET_LO);
        if self.norms.values.len() > VARIANCE_SAMPLES {
            self.norms.values.pop_front();
        }
        let (short, variance) = self.norms.moments();
        let target = (short + variance.sqrt()) * QDELAY_TARGET_LO;
        self.qdelay_target = if self.norms.loss_rate > 0.002 {
            1.5 * target
        } else if variance < 0.2 {
            target
        } else if target < QDELAY_TARGET_LO {
            // Falls quickly when delays are low, slowly otherwise.
            (self.qdelay_target * 0.5).max(target)
        } else {
            self.qdelay_target * 0.9
        }
        .clamp(QDELAY_TARGET_LO, QDELAY_TARGET_HI);
    }

    fn note_flight(&mut self, now: Instant, acked: &Acked, look: &Look) {
        let began = *self.round_began.get_or_insert(now);
        if now.saturating_since(began) >= look.srtt {
            self.round_began = Some(now);
            self.flight = [0.0, self.flight[0]];
            self.norms.loss_rate *= 0.9;
        }
        self.flight[0] = self.flight[0].max((acked.outstanding + acked.bytes) as f64);
    }

    /// Responds to any congestion event: keeps the share `left` of the window.
    fn congested(&mut self, now: Instant, left: f64) {
        if self.inflected_at.is_none_or(|at| now.saturating_since(at) > INFLECTION_INTERVAL) {
            (self.inflected_at, self.ref_wnd_i) = (Some(now), self.ref_wnd);
        }
        self.ref_wnd = (self.ref_wnd * left).max(self.least());
        self.congested_at = Some(now);
    }

    /// Virtual mark: responds to a queueing delay above half of the target, once per round trip.
    fn mark_virtually(&mut self, now: Instant, look: &Look) {
        let half = self.qdelay_target / 2.0;
        let recent = self.congested_at.is_some_and(|at| now.saturating_since(at) < VIRTUAL_RTT.min(look.srtt));
        if look.waited.as_secs_f64() > half && !recent {
            let alpha = ((self.qdelay_avg - half) / half).clamp(0.0, 1.0);
            self.congested(now, 1.0 - alpha / 2.0);
        }
    }

    fn grow(&mut self, now: Instant, acked: &Acked, look: &Look) {
        let since = self.congested_at.map_or(POST_CONGESTION_DELAY, |at| now.saturating_since(at).as_secs_f64());
        let post_congestion_scale = (since / POST_CONGESTION_DELAY).clamp(0.0, 1.0);
        let short = (look.srtt.as_secs_f64() / VIRTUAL_RTT.as_secs_f64()).min(1.0);
        let mut increment = acked.bytes as f64 * self.mss / self.ref_wnd * short * short;
        let from_inflection = (self.ref_wnd - self.ref_wnd_i) / self.ref_wnd_i * 4.0;
        let scale = (from_inflection * from_inflection).clamp(0.1, 1.0);
        increment *= scale;
        increment *= 1.0 + MUL_INCREASE_FACTOR * self.ref_wnd / self.mss * post_congestion_scale * scale;
        let most = self.mss + self.flight[0].max(self.flight[1]) * BYTES_IN_FLIGHT_HEAD_ROOM;
        if self.ref_wnd + increment <= most {
            self.ref_wnd += increment;
        }
    }
}

impl Controller for Scream {
    fn name(&self) -> &'static str {
        "scream"
    }

    fn window(&self) -> u64 {
        self.ref_wnd as u64
    }

    fn adopt(&mut self, window: u64, _: Option<u64>) {
        self.ref_wnd = (window as f64).max(self.least());
        self.ref_wnd_i = 1.0;
    }

    fn heeds_recovery(&self) -> bool {
        false
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        let Some(look) = self.path.acked(now, &acked) else { return };
        self.average(now, &look);
        self.mind_others(now, &look);
        self.note_flight(now, &acked, &look);
        self.mark_virtually(now, &look);
        self.grow(now, &acked, &look);
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion) {
        if !congestion.marked {
            self.norms.loss_rate = 0.9 * self.norms.loss_rate + 0.1;
        }
        self.congested(now, if congestion.marked { BETA_ECN } else { BETA_LOSS });
    }

    fn on_timeout(&mut self, now: Instant, _: TimedOut) {
        self.congested(now, 0.0);
        self.path.after_silence();
        self.qdelay_avg = 0.0;
    }

    /// Halves the window per timeout of the idle period; shorter pauses keep it. Growth is limited by the bytes in flight.
    fn on_idle(&mut self, _: Instant, timeouts: u32) {
        self.ref_wnd = (0..timeouts.min(64)).fold(self.ref_wnd, |window, _| window / 2.0).max(self.least());
        if timeouts > 0 {
            self.path.after_silence();
        }
    }

    fn is_used(&self, under_way: u64) -> bool {
        under_way.saturating_mul(2) >= self.window()
    }

    fn rate(&self, srtt: Duration) -> Rate {
        Rate::from_bytes_in(self.window(), srtt)
    }

    fn pace(&self, srtt: Duration) -> Rate {
        Rate::from_bytes_in((self.ref_wnd * PACKET_PACING_HEADROOM) as u64, srtt)
    }
}

#[cfg(test)]
mod tests;
