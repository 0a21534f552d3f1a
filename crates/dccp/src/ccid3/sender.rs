//! CCID 3 and 4 sender: verified feedback, and the resulting rate (RFC 4342 §5, RFC 5622 §5).

use timeous_cm::Steering;
use timeous_cm::tfrc::{Report, Sender as Tfrc, Settings, equation};
use timeous_core::{Duration, Instant, Rate, RateRange};

use super::counter::Counter;
use super::heard::Heard;
use super::plausible::Implausible;
use super::reported::{LocalBounds, LossEstimate, Reported};
use super::sent::{SentLog, most_received};
use crate::ccid::Ccid;
use crate::ccid4::{Gap, HEADER, NOMINAL_SEGMENT};
use crate::seq::Seq;

/// Window in round trips: data sent until the nofeedback timer expires (four, RFC 4342 §5), and one more. A higher
/// value only lets more be in flight without feedback.
const WINDOW_ROUND_TRIPS: u64 = 5;
/// Length of the send log before the newest feedback, in round trips: loss intervals are looked up in it. Chosen by us:
/// a higher value takes more memory.
const LOG_ROUND_TRIPS: u64 = 8;
/// Lower bound of round-trip samples, against coarse clocks. Chosen by us: it only prevents a division by zero.
const MIN_RTT: Duration = Duration::from_micros(1);
/// Gain of the mean overhead per packet. Chosen by us: a higher value follows changing options sooner.
const OVERHEAD_GAIN: f64 = 1.0 / 16.0;

/// An acknowledgement that may be feedback.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged<'a> {
    pub(crate) ack: Seq,
    /// Initial sequence number of this end.
    pub(crate) iss: Seq,
    /// Delay of the acknowledgement, as reported by the peer: Elapsed Time.
    pub(crate) elapsed: Duration,
    /// Ranges missing in its Ack Vector: newest and oldest.
    pub(crate) missing: &'a [(Seq, Seq)],
}

/// Sender of one half-connection.
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    tfrc: Tfrc,
    /// Whether it is for small packets: CCID 4.
    small: bool,
    gap: Gap,
    counter: Counter,
    sent: SentLog,
    reported: Reported,
    /// Send time of the packet that the last feedback acknowledges.
    heard: Option<Instant>,
    /// Minimum time from a packet to its acknowledgement, with the peer's delay included.
    shortest: Option<Duration>,
    /// Highest allowed rate so far, in bytes per second.
    highest: f64,
    /// Mean bytes per packet besides its payload.
    overhead: f64,
    largest: u64,
    /// Number of reported receive rates above what can have arrived.
    capped: u64,
    /// Packets that the latest black hole took: first and last.
    swallowed: Option<(Seq, Seq)>,
    range: Option<RateRange>,
}

impl Sender {
    /// Creates a sender of packets of up to `largest` bytes, `payload` of them payload. `small`: CCID 4.
    pub(crate) fn new(small: bool, payload: u64, largest: u64) -> Self {
        let settings = if small {
            Settings::for_small_segments(payload, NOMINAL_SEGMENT, HEADER)
        } else {
            Settings::for_segment(payload)
        };
        Self {
            tfrc: Tfrc::new(settings),
            small,
            gap: Gap::default(),
            counter: Counter::default(),
            sent: SentLog::new(),
            reported: Reported::default(),
            heard: None,
            shortest: None,
            highest: 0.0,
            overhead: largest.saturating_sub(payload) as f64,
            largest,
            capped: 0,
            swallowed: None,
            range: None,
        }
    }

    /// CCID 3, or 4 for small packets.
    pub(crate) fn ccid(&self) -> Ccid {
        if self.small { Ccid::Ccid4 } else { Ccid::Ccid3 }
    }

    /// Keeps the rate within the range that a stream asks for; returns whether it is another one than before.
    pub(crate) fn set_range(&mut self, range: Option<RateRange>) -> bool {
        let is_new = self.range != range;
        if is_new {
            self.range = range;
            self.tfrc.set_range(range);
        }
        is_new
    }

    /// Takes the handshake's round-trip time.
    pub(crate) fn on_handshake(&mut self, now: Instant, rtt: Duration) {
        self.shortest = Some(rtt);
        self.tfrc.on_rtt(now, rtt);
    }

    /// Smoothed round-trip time R, once measured.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.tfrc.rtt()
    }

    /// Loss event rate of the last feedback.
    pub(crate) fn loss_event_rate(&self) -> f64 {
        self.tfrc.loss_event_rate()
    }

    /// Number of reported receive rates that were capped.
    pub(crate) fn capped(&self) -> u64 {
        self.capped
    }

    /// CCVal of a data packet that leaves now (RFC 4342 §8.1).
    pub(crate) fn window_counter(&self, now: Instant) -> u8 {
        self.counter.clone().next(now, self.round_trip())
    }

    /// Notes a sent data packet: `payload` bytes, and `bytes` as the Congestion Manager counts them.
    pub(crate) fn sent_data(&mut self, now: Instant, seq: Seq, payload: u64, bytes: u64) {
        let counter = self.counter.next(now, self.round_trip());
        self.sent.push(now, seq, Some(payload), counter);
        self.overhead += OVERHEAD_GAIN * (bytes.saturating_sub(payload) as f64 - self.overhead);
        self.gap.sent(now);
        self.tfrc.on_sent(now, payload);
    }

    /// Notes a sent packet without data.
    pub(crate) fn sent_other(&mut self, now: Instant, seq: Seq) {
        self.sent.push(now, seq, None, self.counter.value());
    }

    /// Notes that data wait for a grant of the Congestion Manager: the sender is not application-limited.
    pub(crate) fn held_back(&mut self, now: Instant) {
        self.tfrc.on_held_back(now);
    }

    /// Time until which no data packet may leave, whatever is granted.
    pub(crate) fn waits_until(&self, now: Instant) -> Option<Instant> {
        self.gap.until(now).filter(|_| self.small)
    }

    /// Notes an acknowledgement of `ack`: the window counter advances a round trip from it (RFC 4342 §8.1).
    pub(crate) fn on_ack(&mut self, now: Instant, ack: Seq) {
        if let Some(sent) = self.sent.get(ack) {
            let whole = now.saturating_since(sent.at);
            self.shortest = Some(self.shortest.map_or(whole, |shortest| shortest.min(whole)));
            self.counter.on_acked(now, sent.counter);
        }
    }

    /// Takes in feedback. Returns whether it was new.
    ///
    /// # Errors
    /// [`Implausible`] if the feedback cannot be true.
    pub(crate) fn on_feedback(
        &mut self,
        now: Instant,
        acknowledged: &Acknowledged<'_>,
        heard: &Heard,
    ) -> Result<bool, Implausible> {
        let Acknowledged { ack, iss, elapsed, missing } = *acknowledged;
        // Feedback about a forgotten packet, or overtaken by newer feedback.
        let newer = |sent_at| self.heard.is_none_or(|heard| sent_at >= heard);
        let Some(&sent) = self.sent.get(ack).filter(|sent| newer(sent.at)) else { return Ok(false) };
        let rtt = self.round_trip();
        let delay = self.believed(now, sent.at, elapsed)?;
        let against = LocalBounds {
            ack,
            iss,
            log: &self.sent,
            rtt,
            longest_first: self.longest_first(rtt),
            missing,
            swallowed: self.swallowed,
        };
        let by_rate = heard.loss_event_rate.unwrap_or(0.0);
        let LossEstimate { p, new_loss_event } = if heard.has_intervals() {
            let told = self.reported.take(&against, heard, self.small)?;
            LossEstimate { p: told.p.max(by_rate), ..told }
        } else {
            LossEstimate { p: by_rate, new_loss_event: by_rate > self.tfrc.loss_event_rate() }
        };
        let time = self.heard.map_or(rtt, |heard| sent.at.saturating_since(heard).max(rtt));
        // After a silence the receiver measures over a round trip (RFC 5348 §6.2), however long it lasted.
        let most = [time, rtt].map(|time| most_received(&self.sent, &sent, time)).into_iter().fold(0.0, f64::max);
        let told = f64::from(heard.receive_rate.unwrap_or(0));
        self.capped += u64::from(told > most);
        let report = Report {
            sent_at: sent.at.min(now.saturating_sub(MIN_RTT)),
            delay,
            receive_rate: Rate::from_bps((told.min(most) * 8.0) as u64),
            loss_event_rate: p,
            new_loss_event,
        };
        self.tfrc.on_feedback(now, report)?;
        self.heard = Some(sent.at);
        self.note_rate();
        self.sent.forget_before(sent.at.saturating_sub(self.round_trip() * LOG_ROUND_TRIPS));
        Ok(true)
    }

    /// Takes the losses of these packets, the first to the last, for one loss event, however long it lasted: packets were
    /// too large for the path (RFC 8899 §4.3), and are smaller from now on.
    pub(crate) fn swallowed(&mut self, first: Seq, last: Seq) {
        self.swallowed = Some((first, last));
    }

    /// Responds to Slow Receiver, or to `overflowed` packets newly dropped at the receive buffer (RFC 4342 §5.2).
    pub(crate) fn on_slow_receiver(&mut self, now: Instant, overflowed: u64) {
        self.tfrc.on_slow_receiver(now, overflowed);
    }

    /// Returns the credible part of the peer's delay: at least half of the minimum acknowledgement time remains as RTT,
    /// since a shorter RTT would mean a higher rate.
    fn believed(&self, now: Instant, sent_at: Instant, elapsed: Duration) -> Result<Duration, Implausible> {
        let passed = now.saturating_since(sent_at);
        if elapsed >= passed.max(MIN_RTT) {
            return Err(Implausible::Delay { delay: elapsed, passed });
        }
        let least = self.shortest.unwrap_or(passed) / 2;
        Ok(elapsed.min(passed.saturating_sub(least)))
    }

    /// Upper bound of the interval before the first loss: the length that yields the highest rate used.
    fn longest_first(&self, rtt: Duration) -> f64 {
        let segment = if self.small { NOMINAL_SEGMENT } else { self.tfrc.segment().round() as u64 };
        let rate = Rate::from_bps((self.highest.max(self.rate()) * 8.0) as u64);
        1.0 / equation::loss_event_rate(segment.max(1), rtt, rate)
    }

    /// Allowed rate in bytes per second, with headers where the equation counts them.
    fn rate(&self) -> f64 {
        let rate = self.tfrc.rate().as_bps() as f64 / 8.0;
        let segment = self.tfrc.segment();
        if self.small { rate * (segment + HEADER as f64) / segment } else { rate }
    }

    fn note_rate(&mut self) {
        self.highest = self.highest.max(self.rate());
    }

    /// Handles the nofeedback timer, if it has expired.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.tfrc.on_timeout(now);
    }

    /// Time at which [`on_timeout`](Self::on_timeout) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.tfrc.poll_timeout()
    }

    /// Rate and window for the Congestion Manager, in bytes as it counts them.
    pub(crate) fn steering(&self) -> Steering {
        let segment = self.tfrc.segment();
        let rate = self.tfrc.instantaneous_rate().as_bps() as f64 * (segment + self.overhead) / segment;
        let rate = Rate::from_bps(rate as u64);
        let window = rate.bytes_in(self.round_trip() * WINDOW_ROUND_TRIPS);
        Steering { rate, window: window.saturating_add(4 * self.largest) }
    }

    fn round_trip(&self) -> Duration {
        self.tfrc.rtt().unwrap_or(timeous_cm::tfrc::receiver::DEFAULT_RTT)
    }
}

#[cfg(test)]
mod tests;
