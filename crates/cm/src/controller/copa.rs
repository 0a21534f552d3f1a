//! Copa (Arun & Balakrishnan, NSDI 2018): a window that keeps a few packets in the bottleneck's queue, and no more.
//!
//! - It aims at `room` packets that wait (the paper's `1/δ`, two). While fewer do, the window grows by `velocity × room`
//!   packets a round trip, while more do it shrinks so. The velocity doubles for each round trip that goes on in the
//!   direction of those before it. So the queue runs empty every few round trips, and the base round trip is seen.
//! - A queue that has not been nearly empty for five round trips is others': they fill it (mode switching, §2.2). Then
//!   the window is as theirs would be, until the queue runs empty again.
//!
//! What is ours, each for a live stream's sake:
//!
//! - It begins with ten packets, as QUIC does (RFC 9002 §7.2), and not with CCID 2's four: a stream's first intra frame has a
//!   deadline, too.
//! - Among others the window is CUBIC's, from slow start on. The paper's increases `room` by AIMD, as NewReno would its window; those
//!   that fill queues today are CUBIC's, beside which AIMD has less and less the longer the queue is. A burst may have besides
//!   what the stream did not use of it, and one of a stream that its source bounds half as much again as the link carries in a round
//!   trip, as long as it has no more in the mean than half as much again as CUBIC's window, or as half of the link.
//! - Far above its aim the window goes at once to what the path holds without a queue, once a round trip, while nobody
//!   else fills it: when a link slows down, a queue that lasts ten round trips is frames too late.
//! - Packets that waited for each other tell the link's rate. Where less of the window waits than is to, it grows at doubling speed
//!   to what such a link holds without a queue; and a queue of its own making takes no more of it than that. In slow start it goes
//!   there at once, by the first flight's trains. Where they told of a rate that goes up and down, a stream of bursts leaves at twice
//!   the window's rate: nobody sees by packets that do not wait that a link carries more again. After a pause its window is what
//!   such a link carried at its best of late.
//! - Before it takes a queue for others' it takes its own packets away for a round trip, and again each thirty round trips as
//!   long as it does, and when its window is four times what it was: with windows of a few packets its own swing does not always
//!   empty the queue, and who fills a queue since it takes it for others' would never find out. A pause takes them away, too.
//! - A time in which the path stands still, as radio links do, is taken out of round trips: what was under way waited for that, and not
//!   for each other.
//! - Delay by which packets overtake each other is no queue, which would keep their order: up to half of the base round trip is taken off.
//! - A round trip that is longer by a step, and stays as it is, is that of a new route: its delay is no queue.
//! - The velocity doubles after two round trips rather than three: capacity that comes back is frames in time.
//! - A step is a quarter of the window at most, a round trip: two packets are half of a small one.
//! - A packet's own time on the link is no queue: on slow links it is longer than most queues.
//! - A loss says nothing by itself: on lossy links a third of the window would go for nothing. It is a sign of congestion
//!   if about as much waits as the path was ever seen to hold of late. Then the window goes to what is delivered, and
//!   for ten seconds `room` is what fits into such a queue. And it is one, whatever waits, if more than a tenth of three
//!   hundred packets and more is lost: a policer, or a path worn out. That halves the window at most, each three hundred
//!   packets as long as it lasts, so that persistent loss makes it slower and slower (RFC 8085 §3.1). Of a hundred, with 5 %
//!   lost in bursts of four, one block in seven loses as much by chance.
//! - A mark takes a fifth (RFC 8511), once a round trip.
//! - A timeout leaves two packets, until something is heard: then the window is what any loss leaves. The end of a frame lost in
//!   one burst is a timeout, since nothing follows it; one with no more than half of the window, alone, leaves the window, as
//!   QUIC's probe timeout does (RFC 9002 §6.2.1, §7.5). The fourth in a row is persistent congestion, as for QUIC what lasts for
//!   three: from the two packets on it is slow start again (RFC 9002 §7.6).

mod losses;
mod others;
mod phases;
mod reroute;
mod rival;
mod standstill;
mod velocity;

use timeous_core::{Duration, Instant, Rate};

use super::queueing::{Look, Queueing};
use super::{Acked, Congestion, Controller, Sent, TimedOut, initial, pace};
use phases::{Before, Drain, Flight, Paused, Silence, Start, share};
use reroute::{NewRoute, Reroute};
use rival::Rival;
use standstill::Standstill;
use velocity::Velocity;

/// The least round trip counts for so long: routes change (§2.1).
const BASE_WINDOW: Duration = Duration::from_secs(10);
/// Packets that are to wait: the paper's `1/δ`.
const ROOM: f64 = 2.0;
/// As many may wait as need this long: what timers and jitter do to a fast path is no queue.
const LEAST_AIM: Duration = Duration::from_millis(4);
/// The window is never smaller, in packets; silence leaves as much (RFC 9002 §6.2.4, §7.6.2).
const MIN_WINDOW: f64 = 2.0;
/// What a step is at most of the window.
const STEP: f64 = 0.25;
/// At its peak two and a half times `room` waits (§3.1): what fits into a queue that holds less.
const PEAK: f64 = 2.5;
/// What a mark leaves of the window (RFC 8511 §3), and a loss at least.
const MARKED: f64 = 0.8;
const LOST: f64 = 0.7;
/// What trains of packets told of the link's rate counts for two round trips and this time, two frames or more.
const TOLD_FOR: Duration = Duration::from_millis(100);
/// A stream that had nothing to send is one of bursts for so long.
const BURSTY_FOR: Duration = Duration::from_secs(1);
/// After more timeouts in a row the congestion persists (RFC 9002 §7.6.1).
const PERSISTENT: u32 = 3;
/// So many acknowledgements in a row that tell of a queue end the start.
const START_SAMPLES: u32 = 3;

/// The controller of Copa: for live streams.
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
    /// In packets, as all below.
    window: f64,
    path: Queueing,
    standstill: Standstill,
    reroute: Reroute,
    start: Option<Start>,
    pace: Velocity,
    mode: Mode,
    rival: Option<Rival>,
    emptied_at: Option<Instant>,
    /// Its own packets were last taken out of the queue then, since that was last empty.
    drained_at: Option<Instant>,
    drain: Option<Drain>,
    /// The window when it last found out whose the queue is.
    found_with: f64,
    /// Nothing of its own was under way, and nothing was heard since.
    paused: Option<Paused>,
    /// A queue that was full, and until when that counts.
    full: Option<(Instant, f64)>,
    reduced_at: Option<Instant>,
    silence: Option<Silence>,
    before_timeout: Option<Before>,
    flight: Flight,
    /// More was lost of late than a path may lose.
    is_worn: bool,
    /// There was nothing to send, then and of late.
    starved_at: Option<Instant>,
    is_bursty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Nobody else fills the queue.
    Short,
    /// Others do.
    Among,
}

impl Copa {
    /// A controller for packets of at most `mtu` bytes, with the initial window of RFC 6928.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu: mtu as f64,
            window: initial::rfc6928(mtu) as f64 / mtu as f64,
            path: Queueing::new(mtu, BASE_WINDOW),
            standstill: Standstill::default(),
            reroute: Reroute::default(),
            start: Some(Start::default()),
            pace: Velocity::STILL,
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

    /// How many packets are to wait.
    fn room(&self, now: Instant) -> f64 {
        match self.full {
            Some((until, held)) if now < until => (held / PEAK).clamp(1.0, ROOM),
            _ => ROOM,
        }
    }

    /// How many packets may wait before the window shrinks.
    fn aim(&self, now: Instant, look: &Look) -> f64 {
        self.room(now).max(self.in_time(LEAST_AIM, look.standing))
    }

    /// How many packets leave in so long, a window in each round trip.
    fn in_time(&self, time: Duration, round: Duration) -> f64 {
        if round.is_zero() { 0.0 } else { self.window * time.as_secs_f64() / round.as_secs_f64() }
    }

    /// What the path holds without a queue, and a packet more, as far as trains told it just now.
    fn fits(&self, now: Instant, look: &Look) -> Option<f64> {
        self.in_base(self.path.link_rate(now, look.srtt * 2 + TOLD_FOR), look)
    }

    /// What a link of this rate holds without a queue, and a packet more.
    fn in_base(&self, rate: Option<f64>, look: &Look) -> Option<f64> {
        rate.filter(|_| !self.is_worn).map(|rate| rate * look.base.as_secs_f64() / self.mtu + 1.0)
    }

    /// The least that a queue leaves of the window.
    fn least(&self, now: Instant, look: &Look) -> f64 {
        self.fits(now, look).map_or(MIN_WINDOW, |fits| fits.min(self.window).max(MIN_WINDOW))
    }

    /// A round trip without the time in which the path stood still.
    fn without_standstill(&mut self, now: Instant, rtt: Duration) -> Duration {
        let rate = self.path.rate().filter(|&rate| rate > 0.0);
        let packet_time = rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(self.mtu / rate));
        self.standstill.taken_out(now, rtt, self.path.base().unwrap_or(rtt), packet_time)
    }

    fn begin(&mut self, now: Instant, mut start: Start, acked: &Acked, look: &Look) {
        let told = self.in_base(self.path.flight_rate(now, look.srtt * 2 + TOLD_FOR), look);
        if let Some(fits) = told.filter(|&fits| acked.window_limited && fits > self.window) {
            (self.window, self.start) = (fits, None);
            return;
        }
        let waits = self.in_time(look.waited.saturating_sub(look.packet_time), look.base + look.waited);
        start.in_a_row = if waits > ROOM { start.in_a_row + 1 } else { 0 };
        if start.in_a_row >= START_SAMPLES {
            self.start = None;
            // What the path holds without a queue, since the round trip grew with what was sent beyond that.
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
        let unit = room.min(STEP * self.window);
        let velocity = self.pace.towards(now, grows, self.window, look.srtt).min(self.window / unit);
        let step = velocity * unit * (acked.bytes as f64 / self.mtu).min(self.window) / self.window;
        if !grows {
            self.window = (self.window - step).max(self.least(now, look));
        } else if acked.window_limited {
            self.window += step;
        }
    }

    /// The path is another: what was measured of the old one counts no more, nor does what its delay did to the window. What it
    /// carries is found out as at the start. With others in the queue, the window is theirs as before.
    fn take_new_route(&mut self, found: NewRoute) {
        if self.rival.is_some() {
            return;
        }
        self.path.rerouted();
        self.standstill = Standstill::default();
        self.window = self.window.max(found.window);
        (self.start, self.drain, self.pace) = (Some(Start::default()), None, Velocity::STILL);
        (self.mode, self.emptied_at, self.drained_at) = (Mode::Short, None, None);
    }

    /// A share of the window is left, once a round trip; says whether that has been done.
    fn reduce_to(&mut self, now: Instant, look: &Look, share: f64) -> bool {
        if self.reduced_at.is_some_and(|at| now.saturating_since(at) < look.srtt) {
            return false;
        }
        self.window = (self.window * share).max(self.least(now, look));
        (self.reduced_at, self.start, self.pace) = (Some(now), None, Velocity::STILL);
        true
    }

    /// Something is heard again: what was lost was no more than a loss, unless the silence was long.
    fn end_silence(&mut self) {
        if let Some(Silence { then, .. }) = self.silence.take().filter(|silence| silence.timeouts <= PERSISTENT)
            && self.mode == Mode::Short
        {
            (self.window, self.start) = (then.max(MIN_WINDOW), None);
        }
    }

    /// After a pause nobody knows what an unsteady link carries now: the window is what it carried at its best of late, as in BBR's
    /// model. One that carries less shows that by a queue within a round trip.
    fn hope_for_the_best(&mut self, now: Instant) {
        let is_known = self.mode == Mode::Short && self.start.is_none();
        let Some(look) = self.path.look().filter(|_| is_known && self.path.is_unsteady()) else { return };
        if let Some(best) = self.in_base(self.path.best_link_rate(now), &look) {
            self.window = self.window.max(best);
        }
    }

    /// Whether a timeout tells no more than that the end of a frame was lost: once, with little under way, and nothing seen of a full queue or
    /// of others.
    fn lost_a_tail(&self, timed_out: &TimedOut) -> bool {
        let is_little = timed_out.outstanding > 0 && timed_out.outstanding * 2 <= self.bytes();
        is_little && !timed_out.again && self.silence.is_none() && self.rival.is_none() && !self.is_full()
    }

    /// After silence nobody knows what waits. But others who were there a moment ago are thought to be there still.
    fn forget_queue(&mut self) {
        (self.pace, self.drain) = (Velocity::STILL, None);
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
        self.pace = Velocity::STILL;
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
        self.is_bursty = self.starved_at.is_some_and(|at| now.saturating_since(at) < BURSTY_FOR);
        if let Some(rival) = self.rival.as_mut().filter(|_| sent.app_limited) {
            rival.left_unused(now);
        }
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        self.end_silence();
        if let Some(found) = acked.rtt.and_then(|rtt| self.reroute.measured(now, rtt, self.window)) {
            self.take_new_route(found);
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
            self.window = (self.window * MARKED).max(MIN_WINDOW.min(self.window));
            (self.reduced_at, self.start, self.pace) = (Some(now), None, Velocity::STILL);
        } else if let Some(look) = self.path.look().filter(|_| self.is_full()) {
            self.overflowed(now, &look);
        }
    }

    fn is_among_others(&self) -> bool {
        self.rival.is_some()
    }

    /// Two packets and, if the silence was long, from there at doubling speed to what was, or until something waits.
    fn on_timeout(&mut self, now: Instant, timed_out: TimedOut) {
        // Where slow start had not come to its end nobody knows yet what fits.
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
            let then = if self.is_full() { self.window * LOST } else { self.window };
            self.silence.get_or_insert(Silence { then, timeouts: 0 }).timeouts += 1;
        }
        self.window = MIN_WINDOW.min(self.window);
        if let Some(rival) = self.rival(now) {
            rival.timed_out(now, timed_out);
        }
        self.forget_queue();
    }

    /// It is paced, so that its window is no burst.
    fn on_spurious_timeout(&mut self, _: u64) {
        let Some(Before { window, start }) = self.before_timeout.take() else { return };
        (self.window, self.start, self.silence) = (window, start, None);
        if let Some(rival) = &mut self.rival {
            rival.timed_out_for_nothing();
        }
        self.follow_rival();
    }

    /// The window decays by half each timeout (RFC 2861 §3.2), and grows again at doubling speed until something waits.
    fn on_idle(&mut self, now: Instant, timeouts: u32) {
        self.path.paused(now);
        // Nothing of its own is in the queue.
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

    /// A stream that is paced by its own clock never fills its window, and still has to learn whether there is room for
    /// more: half of it is use enough (RFC 7661 §4.3).
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
