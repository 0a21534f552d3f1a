//! Copa (Arun & Balakrishnan, NSDI 2018): delay-based congestion control that keeps a few packets in the bottleneck queue.
//!
//! - The target queue is `room` packets (the paper's `1/δ`, two). Below it the window grows by `velocity × room`
//!   packets per round trip, above it the window shrinks by as much. The velocity doubles with each round trip in the
//!   same direction. So the queue empties every few round trips, which shows the base RTT.
//! - A queue that was not nearly empty for five round trips is filled by cross traffic (mode switching, §2.2). Copa
//!   then competes with it until the queue empties again.
//!
//! Changes to the paper, for live streams:
//!
//! - The initial window is ten packets, as in QUIC (RFC 9002 §7.2), not CCID 2's four: a stream's first keyframe has a
//!   deadline, too.
//! - In competition the window is CUBIC's, from slow start on. The paper's AIMD on `room` matches NewReno and loses
//!   more to CUBIC the longer the queue is. Bursts may in addition use saved-up window, or one and a half times the
//!   link's bandwidth-delay product if the source limits the stream, while the mean stays within one and a half times
//!   CUBIC's window or half of the link, whichever is more.
//! - A window far above its target drops at once to the bandwidth-delay product, once per round trip, unless there is
//!   cross traffic: after a rate drop, ten round trips of queueing would make frames late.
//! - Packet trains measure the link rate. Below the target queue the window doubles per round trip up to that rate's
//!   bandwidth-delay product, which is also the floor for delay-based reductions; the first flight's trains end slow
//!   start. On links with a varying rate a bursty stream is paced at twice its window's rate, and resumes after a pause
//!   with the best recent rate.
//! - Before it assumes cross traffic, Copa drains its own packets for a round trip, and again every thirty round trips
//!   in competition and when the window is four times as large: small windows do not always empty the queue by
//!   themselves, and two flows that compete with each other would never notice. A pause drains, too.
//! - Link outages, as on radio links, are subtracted from RTT samples: the packets waited for the link, not in a queue.
//! - Jitter that reorders packets is no queueing delay, which would keep their order: it is subtracted, up to half of the
//!   base RTT.
//! - An RTT that rises in one step and stays constant is a route change: its delay is no queue.
//! - The velocity doubles after two round trips rather than three, so that regained capacity is used in time.
//! - A step is at most a quarter of the window per round trip: two packets are half of a small window.
//! - A packet's transmission time does not count as queueing delay: on slow links it exceeds most queues.
//! - A loss alone is no sign of congestion: random loss would cost a third of the window. With the queue about as long
//!   as it ever was, the window drops to the delivered amount, and `room` fits that queue for ten seconds. A loss rate
//!   above 10 % over at least 300 packets (a policer, or a worn path) at most halves the window, again every 300
//!   packets, so that persistent loss keeps slowing the stream (RFC 8085 §3.1). Over 100 packets, bursty loss of 5 %
//!   would reach 10 % in one block of seven by chance.
//! - An ECN mark reduces the window by a fifth (RFC 8511), once per round trip.
//! - A timeout reduces the window to two packets until the next acknowledgement restores what a loss would leave. A
//!   lost frame tail causes a timeout, too: a single one with at most half of the window in flight leaves the window,
//!   as QUIC's probe timeout does (RFC 9002 §6.2.1, §7.5). The fourth in a row is persistent congestion: slow start
//!   from two packets (RFC 9002 §7.6).

mod losses;
mod others;
mod phases;
mod reroute;
pub(super) mod rival;
mod standstill;
mod velocity;

use timeous_core::{Duration, Instant, Rate};

use super::queueing::{Look, Queueing};
use super::{Acked, Congestion, Controller, Sent, TimedOut, initial, pace};
use phases::{Before, Drain, Flight, Paused, Silence, Start, share};
use reroute::Reroute;
use rival::Rival;
use standstill::Standstill;
use velocity::Velocity;

/// Window of the minimum RTT filter, so that a changed route is noticed (Arun & Balakrishnan §2.1).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Target queue, in packets: the paper's `1/δ` in its default mode (Arun & Balakrishnan §2.2).
const TARGET_QUEUE_PACKETS: f64 = 2.0;
/// Minimum target queueing delay. Chosen by us: timer granularity and jitter of a fast path are no queue.
/// A higher value delays frames on fast links; a lower one takes jitter for a queue and leaves the link unused.
const MIN_TARGET_DELAY: Duration = Duration::from_millis(4);
/// Minimum congestion window, in packets, also after a timeout (RFC 9002 §4.8, §7.2, §7.6.2).
const MIN_WINDOW: f64 = 2.0;
/// Maximum change of the window per round trip at velocity one, as a share of the window. Chosen by us: two packets
/// are half of a small window. A higher value regains capacity sooner and makes small windows oscillate.
const MAX_STEP: f64 = 0.25;
/// Peak of the oscillating queue, in multiples of the target queue (Arun & Balakrishnan §3.1). Divides a queue that
/// overflowed, so that the target fits it.
const PEAK_QUEUE_FACTOR: f64 = 2.5;
/// Factor of the window after an ECN mark: `beta_{ecn}` (RFC 8511 §3).
const MARK_FACTOR: f64 = 0.8;
/// Minimum factor of the window after a loss with a full queue. Chosen by us, equal to `β_cubic` (RFC 9438 §4.6). A
/// lower value leaves more of the link unused after an overflow.
const LOSS_FACTOR: f64 = 0.7;
/// Maximum age of a packet train's link rate, in addition to two round trips. Chosen by us: two frames at 25 frames
/// per second fit. A higher value uses the rate of a link that has changed; a lower one has no rate between frames.
const LINK_RATE_MAX_AGE: Duration = Duration::from_millis(100);
/// Time after an application-limited moment for which a stream counts as bursty. Chosen by us: longer than the time
/// between frames. A higher value paces a stream at twice its window's rate that has become greedy.
const BURSTY_PERIOD: Duration = Duration::from_secs(1);
/// Consecutive timeouts beyond which congestion is persistent: `kPersistentCongestionThreshold` (RFC 9002 §7.6.1).
const PERSISTENT_TIMEOUTS: u32 = 3;
/// Consecutive RTT samples above the target queue that end slow start. Chosen by us, as for AIMD. A higher value
/// tolerates more jitter and overshoots further.
const SLOW_START_EXIT_SAMPLES: u32 = 3;

/// Copa controller, for live streams.
///
/// ```
/// use timeous_cm::{Acked, Controller, Copa};
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
    standstill: Standstill,
    reroute: Reroute,
    start: Option<Start>,
    pace: Velocity,
    mode: Mode,
    rival: Option<Rival>,
    emptied_at: Option<Instant>,
    /// Last time when its own packets were drained from the queue, since the queue was last empty.
    drained_at: Option<Instant>,
    drain: Option<Drain>,
    /// Window when it last decided whether there is cross traffic.
    found_with: f64,
    /// Idle period: its flight was empty, and no acknowledgement has come since.
    paused: Option<Paused>,
    /// Overflow of the queue: until when it counts, and the packets that the queue held.
    full: Option<(Instant, f64)>,
    reduced_at: Option<Instant>,
    silence: Option<Silence>,
    before_timeout: Option<Before>,
    flight: Flight,
    /// The recent loss rate is above `MAX_LOSS_RATE`.
    is_worn: bool,
    /// Last time when the application had nothing to send.
    starved_at: Option<Instant>,
    is_bursty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Default mode: no cross traffic fills the queue.
    Short,
    /// Competitive mode: cross traffic fills the queue.
    Among,
}

impl Copa {
    /// Creates a controller for packets of at most `mtu` bytes, with the initial window of RFC 6928.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu: mtu as f64,
            window: initial::rfc6928(mtu) as f64 / mtu as f64,
            path: Queueing::new(mtu, MIN_RTT_WINDOW),
            standstill: Standstill::default(),
            reroute: Reroute::default(),
            start: Some(Start::default()),
            pace: Velocity::INITIAL,
            mode: Mode::Short,
            rival: None,
            emptied_at: None,
            drained_at: None,
            drain: None,
            found_with: 0.0,
            paused: None,
            full: None,
            reduced_at: None,
            silence: None,
            before_timeout: None,
            flight: Flight::default(),
            is_worn: false,
            starved_at: None,
            is_bursty: false,
        }
    }

    /// Target queue in packets.
    fn room(&self, now: Instant) -> f64 {
        match self.full {
            Some((until, held)) if now < until => (held / PEAK_QUEUE_FACTOR).clamp(1.0, TARGET_QUEUE_PACKETS),
            _ => TARGET_QUEUE_PACKETS,
        }
    }

    /// Queue length in packets above which the window shrinks.
    fn aim(&self, now: Instant, look: &Look) -> f64 {
        self.room(now).max(self.in_time(MIN_TARGET_DELAY, look.standing))
    }

    /// Packets sent within `time`, at one window per round trip.
    fn in_time(&self, time: Duration, round: Duration) -> f64 {
        if round.is_zero() { 0.0 } else { self.window * time.as_secs_f64() / round.as_secs_f64() }
    }

    /// Bandwidth-delay product plus one packet, by the link rate recently measured with packet trains.
    fn fits(&self, now: Instant, look: &Look) -> Option<f64> {
        self.in_base(self.path.link_rate(now, look.srtt * 2 + LINK_RATE_MAX_AGE), look)
    }

    /// Bandwidth-delay product plus one packet, for a link of this rate.
    fn in_base(&self, rate: Option<f64>, look: &Look) -> Option<f64> {
        rate.filter(|_| !self.is_worn).map(|rate| rate * look.base.as_secs_f64() / self.mtu + 1.0)
    }

    /// Lower bound for reductions because of a queue.
    fn least(&self, now: Instant, look: &Look) -> f64 {
        self.fits(now, look).map_or(MIN_WINDOW, |fits| fits.min(self.window).max(MIN_WINDOW))
    }

    /// Returns the RTT sample without the time of a link outage.
    fn without_standstill(&mut self, now: Instant, rtt: Duration) -> Duration {
        let rate = self.path.rate().filter(|&rate| rate > 0.0);
        let packet_time = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(self.mtu / rate));
        self.standstill.taken_out(now, rtt, self.path.base().unwrap_or(rtt), packet_time)
    }

    fn begin(&mut self, now: Instant, mut start: Start, acked: &Acked, look: &Look) {
        let told = self.in_base(self.path.flight_rate(now, look.srtt * 2 + LINK_RATE_MAX_AGE), look);
        if let Some(fits) = told.filter(|&fits| acked.window_limited && fits > self.window) {
            (self.window, self.start) = (fits, None);
            return;
        }
        let waits = self.in_time(look.waited.saturating_sub(look.packet_time), look.base + look.waited);
        start.in_a_row = if waits > TARGET_QUEUE_PACKETS { start.in_a_row + 1 } else { 0 };
        if start.in_a_row >= SLOW_START_EXIT_SAMPLES {
            self.start = None;
            // Reduce the window to the bandwidth-delay product: the rest of it made the RTT grow.
            let least = self.least(now, look);
            self.window = (self.window * share(look.base, look.base + look.waited)).max(least);
            return;
        }
        if acked.window_limited {
            self.window += acked.bytes as f64 / self.mtu;
        }
        let is_over = start.threshold.is_some_and(|threshold| self.window >= threshold);
        self.start = Some(start).filter(|_| !is_over);
    }

    fn steer(&mut self, now: Instant, acked: &Acked, look: &Look) {
        let (room, aim) = (self.room(now), self.aim(now, look));
        let waits = self.in_time(look.queued, look.standing);
        let grows = waits <= aim;
        if waits > 2.0 * aim + 1.0 && self.reduce_to(now, look, share(look.base, look.standing)) {
            return;
        }
        if let Some(fits) = self.fits(now, look).filter(|&fits| grows && self.window < fits && acked.window_limited) {
            self.window = (self.window + acked.bytes as f64 / self.mtu).min(fits);
            return;
        }
        let unit = room.min(MAX_STEP * self.window);
        let velocity = self.pace.towards(now, grows, self.window, look.srtt).min(self.window / unit);
        let step = velocity * unit * (acked.bytes as f64 / self.mtu).min(self.window) / self.window;
        if !grows {
            self.window = (self.window - step).max(self.least(now, look));
        } else if acked.window_limited {
            self.window += step;
        }
    }

    /// Drops the old route's measurements and their effect on the window, and starts anew in slow start, with at least
    /// the old route's `window`, in packets. In competitive mode the window stays as it is.
    fn take_new_route(&mut self, window: f64) {
        if self.rival.is_some() {
            return;
        }
        self.path.rerouted();
        self.standstill = Standstill::default();
        self.window = self.window.max(window);
        (self.start, self.drain, self.pace) = (Some(Start::default()), None, Velocity::INITIAL);
        (self.mode, self.emptied_at, self.drained_at) = (Mode::Short, None, None);
    }

    /// Reduces the window to a share, at most once per round trip; returns whether it did so now.
    fn reduce_to(&mut self, now: Instant, look: &Look, share: f64) -> bool {
        if self.reduced_at.is_some_and(|at| now.saturating_since(at) < look.srtt) {
            return false;
        }
        self.window = (self.window * share).max(self.least(now, look));
        (self.reduced_at, self.start, self.pace) = (Some(now), None, Velocity::INITIAL);
        true
    }

    /// Handles the first acknowledgement after a timeout: treats it like a loss, unless the silence was long.
    fn end_silence(&mut self) {
        if let Some(Silence { then, .. }) =
            self.silence.take().filter(|silence| silence.timeouts <= PERSISTENT_TIMEOUTS)
            && self.mode == Mode::Short
        {
            (self.window, self.start) = (then.max(MIN_WINDOW), None);
        }
    }

    /// Restores the window after a pause to the best recent rate of an unsteady link, whose current rate is unknown, as
    /// BBR's model does. If the link now carries less, a queue shows it within a round trip.
    fn hope_for_the_best(&mut self, now: Instant) {
        let is_known = self.mode == Mode::Short && self.start.is_none();
        let Some(look) = self.path.look().filter(|_| is_known && self.path.is_unsteady()) else { return };
        if let Some(best) = self.in_base(self.path.best_link_rate(now), &look) {
            self.window = self.window.max(best);
        }
    }

    /// Whether a timeout only means that the end of a frame was lost: a single one, with little in flight, and no sign
    /// of a full queue or cross traffic.
    fn lost_a_tail(&self, timed_out: &TimedOut) -> bool {
        let is_little = timed_out.outstanding > 0 && timed_out.outstanding * 2 <= self.bytes();
        is_little && !timed_out.again && self.silence.is_none() && self.rival.is_none() && !self.is_full()
    }

    /// Forgets the queue after a silence, when its length is unknown. Recently seen cross traffic is assumed to persist.
    fn forget_queue(&mut self) {
        (self.pace, self.drain) = (Velocity::INITIAL, None);
        if self.rival.is_none() {
            (self.mode, self.emptied_at, self.drained_at) = (Mode::Short, None, None);
        }
        self.path.after_silence();
        self.follow_rival();
    }

    fn bytes(&self) -> u64 {
        (self.window * self.mtu) as u64
    }
}

impl Controller for Copa {
    fn name(&self) -> &'static str {
        "copa"
    }

    fn window(&self) -> u64 {
        self.bytes()
    }

    fn adopt(&mut self, window: u64, threshold: Option<u64>) {
        let threshold = threshold.map(|threshold| threshold as f64 / self.mtu);
        self.window = (window as f64 / self.mtu).max(1.0);
        self.start =
            Some(Start { threshold, in_a_row: 0 }).filter(|_| threshold.is_none_or(|least| self.window < least));
        self.pace = Velocity::INITIAL;
    }

    fn end_slow_start(&mut self) {
        self.start = None;
    }

    fn heeds_recovery(&self) -> bool {
        false
    }

    fn on_sent(&mut self, now: Instant, sent: Sent) {
        if sent.app_limited {
            self.starved_at = Some(now);
        }
        self.is_bursty = self.starved_at.is_some_and(|at| now.saturating_since(at) < BURSTY_PERIOD);
        if let Some(rival) = self.rival.as_mut().filter(|_| sent.app_limited) {
            rival.left_unused(now);
        }
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        self.end_silence();
        if let Some(window) = acked.rtt.and_then(|rtt| self.reroute.measured(now, rtt, self.window)) {
            self.take_new_route(window);
        }
        let acked = Acked { rtt: acked.rtt.map(|rtt| self.without_standstill(now, rtt)), ..acked };
        let Some(look) = self.path.acked(now, &acked) else {
            if self.start.is_some() && acked.window_limited {
                self.window += acked.bytes as f64 / self.mtu;
            }
            return;
        };
        self.mind_losses(now, &look);
        if acked.rtt.is_some()
            && let Some(paused) = self.paused.take()
        {
            self.look_after_pause(now, &look, paused);
        }
        self.look_for_others(now, &acked, &look);
        let holds = self.mode == Mode::Among && self.drain.is_none();
        if let Some(rival) = self.rival(now) {
            rival.acked(now, &acked, holds);
        }
        if let (Some(start), Mode::Short) = (self.start, self.mode) {
            self.emptied_at = Some(now);
            self.begin(now, start, &acked, &look);
        } else if !self.judge(now, &look) {
            match self.mode {
                Mode::Short => self.steer(now, &acked, &look),
                Mode::Among => self.follow_rival(),
            }
        }
    }

    fn on_overtaken(&mut self, now: Instant, by: Duration) {
        self.path.overtaken(now, by);
    }

    fn on_lost(&mut self, _: Instant, bytes: u64) {
        self.path.lost(bytes);
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion) {
        let is_among = self.mode == Mode::Among;
        if let Some(rival) = self.rival(now) {
            rival.congested(now, congestion, is_among);
        }
        if is_among {
            self.follow_rival();
            return;
        }
        if congestion.marked {
            self.window = (self.window * MARK_FACTOR).max(MIN_WINDOW.min(self.window));
            (self.reduced_at, self.start, self.pace) = (Some(now), None, Velocity::INITIAL);
        } else if let Some(look) = self.path.look().filter(|_| self.is_full()) {
            self.overflowed(now, &look);
        }
    }

    fn is_among_others(&self) -> bool {
        self.rival.is_some()
    }

    /// Falls back to two packets; after a long silence slow start goes up to the old window, or until a queue builds up.
    fn on_timeout(&mut self, now: Instant, timed_out: TimedOut) {
        // An unfinished slow start has not found out what fits.
        let is_known = self.start.is_none_or(|start| start.threshold.is_some());
        if is_known && self.lost_a_tail(&timed_out) {
            self.before_timeout = None;
            self.silence = Some(Silence { then: self.window, timeouts: 1 });
            return;
        }
        if !timed_out.again {
            self.before_timeout = Some(Before { window: self.window, start: self.start });
        }
        if timed_out.outstanding > 0 {
            let before = self.start.and_then(|start| start.threshold).unwrap_or(self.window);
            let threshold = if timed_out.again { before } else { self.window.max(before / 2.0) };
            self.start = Some(Start { threshold: Some(threshold.max(MIN_WINDOW)), in_a_row: 0 });
        }
        if timed_out.outstanding > 0 && is_known {
            let then = if self.is_full() { self.window * LOSS_FACTOR } else { self.window };
            self.silence.get_or_insert(Silence { then, timeouts: 0 }).timeouts += 1;
        }
        self.window = MIN_WINDOW.min(self.window);
        if let Some(rival) = self.rival(now) {
            rival.timed_out(now, timed_out);
        }
        self.forget_queue();
    }

    /// Restores the saved state at once: pacing keeps the larger window from leaving as a burst.
    fn on_spurious_timeout(&mut self, _: u64) {
        let Some(Before { window, start }) = self.before_timeout.take() else { return };
        (self.window, self.start, self.silence) = (window, start, None);
        if let Some(rival) = &mut self.rival {
            rival.timed_out_for_nothing();
        }
        self.follow_rival();
    }

    /// Halves the window per timeout (RFC 2861 §3.2); slow start then goes on until a queue builds up.
    fn on_idle(&mut self, now: Instant, timeouts: u32) {
        self.path.paused(now);
        // An idle period drains the flow's own packets from the queue.
        let drained = self.drain.filter(|_| self.mode == Mode::Among).map(|_| self.window);
        self.end_drain(false);
        (self.drained_at, self.paused) = (Some(now), Some(Paused { drained }));
        if timeouts == 0 {
            self.hope_for_the_best(now);
            return;
        }
        self.flight = Flight::default();
        let least = self.window.min(initial::rfc6928(self.mtu as u64) as f64 / self.mtu);
        let decayed = (0..timeouts.min(64)).fold(self.window, |window, _| window / 2.0);
        (self.window, self.start, self.silence) = (decayed.max(least), Some(Start::default()), None);
        if let Some(rival) = self.rival(now) {
            rival.idle(now, timeouts);
        }
        self.forget_queue();
    }

    /// A stream paced by its own clock never fills its window, and must still find out whether there is room for more:
    /// using half of the window suffices (RFC 7661 §4.3).
    fn is_used(&self, under_way: u64) -> bool {
        under_way.saturating_mul(2) >= self.bytes()
    }

    fn rate(&self, srtt: Duration) -> Rate {
        pace::expected(self.bytes(), self.start.is_some(), srtt)
    }

    fn pace(&self, srtt: Duration) -> Rate {
        let is_unsteady = self.mode == Mode::Short && self.is_bursty && self.path.is_unsteady();
        pace::above(self.bytes(), self.start.is_some() || is_unsteady, srtt)
    }
}

#[cfg(test)]
mod tests;
