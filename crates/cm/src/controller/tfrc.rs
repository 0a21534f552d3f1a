//! TFRC as a controller (RFC 5348 §7): the sender itself finds loss events, from its flows' feedback.
//!
//! Clients report arrivals, and losses at most once per round trip, which makes each report a loss event. Loss
//! intervals count acknowledged full packets, and a feedback packet is emulated once per round trip, with the
//! acknowledgement rate as X_recv. The position of a loss within its round trip is unknown. The manager's timeouts
//! stand in for the nofeedback timer.

use timeous_core::{Duration, Instant, Rate};

use super::{Acked, Congestion, Controller, TimedOut, initial};
use crate::tfrc::allowed::{Allowed, FeedbackReport, Path};
use crate::tfrc::{LossIntervals, equation, receiver};

/// Window, in multiples of the allowed rate times the RTT. Chosen by us: more than one, so that the pacing rate is the
/// limit. A higher value allows more in flight when feedback is late.
const WINDOW_FACTOR: f64 = 1.25;
/// Maximum number of halvings for consecutive nofeedback timeouts of a pause. Chosen by us: they end at the minimum
/// rate (RFC 5348 §4.4). A higher value changes nothing.
const MAX_TIMEOUTS: u32 = 64;
/// Minimum rate after the first loss event, in packets per round trip (RFC 5348 §6.3.1).
const MIN_PACKETS_PER_RTT: f64 = 0.5;

/// Sender-based controller of RFC 5348: smooth, for streams whose encoder should not halve its rate for one loss.
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
    /// Window until the first RTT sample.
    first: u64,
    /// Adopted from another controller that had left slow start.
    settled: bool,
    srtt: Option<Duration>,
    allowed: Allowed,
    intervals: LossIntervals,
    /// Packets in the current loss interval.
    current: f64,
    round: Option<Round>,
    /// The previous round and the state before it ended: acknowledgements at the very instant of its end belong to it.
    over: Option<(Instant, Round, Allowed)>,
    /// X_recv of the last round and its maximum so far, in bytes per second.
    receive_rate: Option<f64>,
    highest: f64,
    /// Whether window or pace limited the last round.
    limited: bool,
}

/// Round of acknowledgements, about a round trip long.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Instant,
    bytes: u64,
    /// Bytes acknowledged at the very instant of its start, which belong to the previous round trip.
    flight: u64,
    /// Whether window or pace was the limit at some time.
    limited: bool,
}

impl Round {
    fn and(self, acked: &Acked) -> Self {
        Self { bytes: self.bytes + acked.bytes, limited: self.limited || acked.window_limited, ..self }
    }
}

impl Tfrc {
    /// Creates a controller for packets of at most `mtu` bytes, with the initial window of RFC 3390.
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

    /// Loss event rate p: 0 before the first loss event, at most 1.
    pub fn loss_event_rate(&self) -> f64 {
        self.intervals.loss_event_rate(self.current)
    }

    fn path(&self, rtt: Duration) -> Path {
        Path { rtt, segment: self.mtu as f64, initial_window: initial::rfc3390(self.mtu) }
    }

    /// Turns the window into a rate at the first RTT sample.
    fn start(&mut self, now: Instant, rtt: Duration) {
        let path = Path { initial_window: self.first, ..self.path(rtt) };
        if self.settled {
            self.intervals.close(self.length_for(self.first as f64 / self.mtu as f64));
            self.current = 1.0;
        }
        self.allowed.on_first_feedback(now, &path, self.loss_event_rate());
        self.srtt = Some(rtt);
    }

    /// Loss interval at which the throughput equation gives this many packets per round trip.
    fn length_for(&self, packets: f64) -> f64 {
        1.0 / equation::for_packets_a_round_trip(packets.max(MIN_PACKETS_PER_RTT))
    }

    /// Processes an emulated feedback packet.
    fn hear(&mut self, now: Instant, rtt: Duration, receive_rate: f64, new_loss_event: bool, data_limited: bool) {
        let report = FeedbackReport { receive_rate, p: self.loss_event_rate(), new_loss_event, data_limited };
        self.allowed.on_feedback(now, &self.path(rtt), report);
    }

    /// Begins a round with an acknowledgement of the previous round trip's data, `flight` bytes of which were counted already.
    fn begin_round(&mut self, now: Instant, rtt: Duration, acked: &Acked, flight: u64) {
        let flight = flight + acked.bytes;
        self.prove(flight as f64 / rtt.as_secs_f64());
        self.round = Some(Round { began: now, bytes: 0, flight, limited: acked.window_limited });
    }

    /// Raises the allowed rate to a rate that has arrived, before the first loss event: the manager may try a
    /// remembered window, and slow start continues from what was delivered.
    fn prove(&mut self, rate: f64) {
        if self.intervals.is_empty() {
            self.allowed.raise(rate);
        }
    }

    /// Ends a round, which is treated as a feedback packet.
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
            // Before a full round was measured: half of the bytes in flight, as slow start sends twice what arrives.
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
            Some(srtt) => ((self.allowed.rate() * srtt.as_secs_f64() * WINDOW_FACTOR) as u64).max(self.mtu),
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

    /// Handles a timeout: like the nofeedback timer (RFC 5348 §4.4), and the lost data is a loss event.
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

    /// Lets the rate decay per nofeedback timeout while idle, down to the initial rate.
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
        by_equation.is_finite().then(|| (by_equation * self.round_trip().as_secs_f64() * WINDOW_FACTOR) as u64)
    }

    fn adopt(&mut self, window: u64, threshold: Option<u64>) {
        *self = Self {
            first: window.max(self.mtu),
            settled: threshold.is_some_and(|threshold| threshold <= window),
            ..Self::new(self.mtu)
        };
    }

    /// A paced flow never fills its window: using half of it suffices.
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
