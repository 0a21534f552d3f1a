//! TFRC as a controller (RFC 5348 §7): loss events are found at the sender, from what its flows report.
//!
//! Clients of the manager tell what arrived and that something was lost, once a round trip, which is what a loss event is.
//! So intervals are counted in full packets acknowledged, and feedback is made up once a round trip: the rate at
//! which acknowledgements came is X_recv. What the receiver half alone can know is missing: where within a round trip
//! a loss was. The manager's own timeouts stand in for the nofeedback timer.

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Congestion, Controller, TimedOut, initial};
use crate::tfrc::allowed::{Allowed, Heard, Path};
use crate::tfrc::{LossIntervals, equation, receiver};

/// What may be outstanding beyond a round trip of the allowed rate: the pace is the limit, and not the window.
const SLACK: f64 = 1.25;
/// More nofeedback timers in a row leave nothing to halve.
const MAX_TIMEOUTS: u32 = 64;
/// The least rate after the first loss event, in packets a round trip (RFC 5348 §6.3.1).
const LEAST_PACKETS: f64 = 0.5;

/// The controller of RFC 5348, sender-based: smooth, for streams whose encoder should not halve its rate for one loss.
///
/// ```
/// use timeous_cm::{Acked, Controller, Tfrc};
/// use timeous_core::{Duration, Instant, Rate};
/// let mut tfrc = Tfrc::new(1_000);
/// assert_eq!(tfrc.window(), 4_000);
/// let rtt = Duration::from_millis(100);
/// let acked = Acked { bytes: 1_000, outstanding: 3_000, rtt: Some(rtt), srtt: Some(rtt), window_limited: true };
/// tfrc.on_acked(Instant::ZERO + rtt, acked);
/// assert_eq!(tfrc.pace(rtt), Rate::from_kbps(320), "an initial window a round trip, evenly");
/// ```
#[derive(Clone, Debug)]
pub struct Tfrc {
    mtu: u64,
    /// The window, until there is a round trip.
    first: u64,
    /// It was another controller's, who was beyond slow start.
    settled: bool,
    srtt: Option<Duration>,
    allowed: Allowed,
    intervals: LossIntervals,
    /// Packets since the newest loss event began.
    current: f64,
    round: Option<Round>,
    /// The round before it, and the rate as it was then: what comes at the very instant of its end belongs to it.
    over: Option<(Instant, Round, Allowed)>,
    /// X_recv of the last round, and the highest so far, in bytes a second.
    receive_rate: Option<f64>,
    highest: f64,
    /// Whether the last round was limited by the window or the pace.
    limited: bool,
}

/// What was acknowledged since a round began.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    bytes: u64,
    /// What was acknowledged at the very instant of its beginning, which is of the round trip before.
    flight: u64,
    /// The window or the pace was the limit at some time.
    limited: bool,
}

impl Round {
    fn and(self, acked: &Acked) -> Self {
        Self { bytes: self.bytes + acked.bytes, limited: self.limited || acked.window_limited, ..self }
    }
}

impl Tfrc {
    /// A controller for packets of at most `mtu` bytes, with the initial window of RFC 3390.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu,
            first: initial::rfc3390(mtu),
            settled: false,
            srtt: None,
            allowed: Allowed::new(mtu as f64),
            intervals: LossIntervals::default(),
            current: 0.0,
            round: None,
            over: None,
            receive_rate: None,
            highest: 0.0,
            limited: false,
        }
    }

    /// p: 0 without any loss event, and at most 1.
    pub fn loss_event_rate(&self) -> f64 {
        self.intervals.loss_event_rate(self.current)
    }

    fn path(&self, rtt: Duration) -> Path {
        Path { rtt, segment: self.mtu as f64, initial_window: initial::rfc3390(self.mtu) }
    }

    /// The first round trip is known: the window becomes a rate.
    fn start(&mut self, now: Instant, rtt: Duration) {
        let path = Path { initial_window: self.first, ..self.path(rtt) };
        if self.settled {
            self.intervals.close(self.length_for(self.first as f64 / self.mtu as f64));
            self.current = 1.0;
        }
        self.allowed.on_first_feedback(now, &path, self.loss_event_rate());
        self.srtt = Some(rtt);
    }

    /// The loss interval at which the equation gives so many packets a round trip.
    fn length_for(&self, packets: f64) -> f64 {
        1.0 / equation::for_packets_a_round_trip(packets.max(LEAST_PACKETS))
    }

    /// What a feedback packet would tell.
    fn hear(&mut self, now: Instant, rtt: Duration, receive_rate: f64, new_loss_event: bool, data_limited: bool) {
        let heard = Heard { receive_rate, p: self.loss_event_rate(), new_loss_event, data_limited };
        self.allowed.on_feedback(now, &self.path(rtt), heard);
    }

    /// A round begins with an acknowledgement of what took the round trip before, of which `flight` bytes were told already.
    fn begin_round(&mut self, now: Instant, rtt: Duration, acked: &Acked, flight: u64) {
        let flight = flight + acked.bytes;
        self.prove(flight as f64 / rtt.as_secs_f64());
        self.round = Some(Round { began: now, bytes: 0, flight, limited: acked.window_limited });
    }

    /// So much arrived. It is more than the allowed rate where the manager tries a window that it remembers; slow start
    /// goes on from what proved right.
    fn prove(&mut self, rate: f64) {
        if self.intervals.is_empty() {
            self.allowed.raise(rate);
        }
    }

    /// A round is over: that is feedback.
    fn finish(&mut self, now: Instant, rtt: Duration, round: Round) {
        let rate = round.bytes as f64 / now.saturating_since(round.began).as_secs_f64();
        self.over = Some((now, round, self.allowed.clone()));
        self.round = Some(Round { began: now, bytes: 0, flight: 0, limited: false });
        self.receive_rate = Some(rate);
        self.highest = self.highest.max(rate);
        self.limited = round.limited;
        self.hear(now, rtt, rate, false, !round.limited);
        self.prove(rate);
    }

    fn round_trip(&self) -> Duration {
        self.srtt.unwrap_or(receiver::DEFAULT_RTT)
    }

    fn begin_loss_event(&mut self, rtt: Duration, outstanding: u64) {
        let length = if self.intervals.is_empty() {
            // Before a whole round was measured: half of what is under way, as the sender sends twice what arrives.
            let so_far = if self.highest > 0.0 { self.highest * rtt.as_secs_f64() } else { outstanding as f64 / 2.0 };
            self.length_for(so_far / self.mtu as f64)
        } else {
            self.current
        };
        self.intervals.close(length);
        self.current = 1.0;
    }
}

impl Controller for Tfrc {
    fn name(&self) -> &'static str {
        "tfrc"
    }

    fn window(&self) -> u64 {
        match self.srtt {
            Some(srtt) => ((self.allowed.rate() * srtt.as_secs_f64() * SLACK) as u64).max(self.mtu),
            None => self.first,
        }
    }

    fn on_acked(&mut self, now: Instant, acked: Acked) {
        if !self.intervals.is_empty() {
            self.current += acked.bytes as f64 / self.mtu as f64;
        }
        let Some(rtt) = acked.srtt.filter(|srtt| !srtt.is_zero()) else { return };
        if self.srtt.is_none() {
            self.start(now, rtt);
        }
        self.srtt = Some(rtt);
        if self.over.as_ref().is_some_and(|&(end, ..)| end < now) {
            self.over = None;
        }
        if let Some((_, over, before)) = self.over.take() {
            self.allowed = before;
            self.finish(now, rtt, over.and(&acked));
            return;
        }
        let Some(round) = self.round else {
            self.begin_round(now, rtt, &acked, 0);
            return;
        };
        if round.began == now {
            self.begin_round(now, rtt, &acked, round.flight);
            return;
        }
        let round = round.and(&acked);
        if now.saturating_since(round.began) < rtt {
            self.round = Some(round);
        } else {
            self.finish(now, rtt, round);
        }
    }

    fn on_congestion(&mut self, now: Instant, congestion: Congestion) {
        let rtt = self.round_trip();
        if self.srtt.is_none() {
            self.start(now, rtt);
        }
        self.begin_loss_event(rtt, congestion.outstanding);
        let rate = self.receive_rate.unwrap_or(congestion.outstanding as f64 / rtt.as_secs_f64());
        let limited = self.limited || self.round.is_none_or(|round| round.limited);
        self.over = None;
        self.hear(now, rtt, rate, true, !limited);
    }

    /// Nothing came back: the nofeedback timer (RFC 5348 §4.4), and what was lost is a loss event.
    fn on_timeout(&mut self, now: Instant, timed_out: TimedOut) {
        let rtt = self.round_trip();
        if self.srtt.is_none() {
            self.start(now, rtt);
        }
        if !timed_out.again && timed_out.outstanding > 0 {
            self.begin_loss_event(rtt, timed_out.outstanding);
            let rate = self.receive_rate.unwrap_or(timed_out.outstanding as f64 / rtt.as_secs_f64());
            self.hear(now, rtt, rate, true, false);
        }
        self.allowed.on_silence(now, &self.path(rtt), false);
        (self.round, self.over) = (None, None);
    }

    /// The nofeedback timer of an idle sender: the rate falls to what a fresh one would have, and no lower.
    fn on_idle(&mut self, now: Instant, timeouts: u32) {
        if timeouts > 0 {
            (self.round, self.over) = (None, None);
        }
        let Some(rtt) = self.srtt else { return };
        for _ in 0..timeouts.min(MAX_TIMEOUTS) {
            self.allowed.on_silence(now, &self.path(rtt), true);
        }
    }

    fn threshold(&self) -> Option<u64> {
        let by_equation = self.allowed.by_equation();
        by_equation.is_finite().then(|| (by_equation * self.round_trip().as_secs_f64() * SLACK) as u64)
    }

    fn adopt(&mut self, window: u64, threshold: Option<u64>) {
        *self = Self {
            first: window.max(self.mtu),
            settled: threshold.is_some_and(|threshold| threshold <= window),
            ..Self::new(self.mtu)
        };
    }

    /// At a pace the window is never full: half of it is use enough.
    fn is_used(&self, under_way: u64) -> bool {
        under_way.saturating_mul(2) >= self.window()
    }

    fn rate(&self, srtt: Duration) -> Rate {
        match self.srtt {
            Some(_) => equation::to_rate(self.allowed.rate()),
            None => Rate::from_bytes_in(self.first, srtt),
        }
    }

    fn pace(&self, srtt: Duration) -> Rate {
        self.rate(srtt)
    }
}

#[cfg(test)]
mod tests;
