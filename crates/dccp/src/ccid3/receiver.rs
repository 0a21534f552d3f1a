//! CCID 3 and 4 receiver: when to send feedback, and its contents (RFC 4342 §6, §10.3).

use timeous_cm::tfrc::equation;
use timeous_core::{Duration, Instant, Rate};

use super::arrivals::Arrivals;
use super::counter::ROUND_TRIP;
use super::history::{History, KEPT_INTERVALS, Packet};
use super::options::{LOSS_EVENT_RATE, LOSS_INTERVALS, RECEIVE_RATE, encode_loss_event_rate, encode_loss_intervals};
use crate::ccid::Ccid;
use crate::ccid4::options::{DROPPED_PACKETS, encode_drop_counts};
use crate::ccid4::{HEADER, NOMINAL_SEGMENT};
use crate::options::{Opt, OptionList};
use crate::seq::Seq;

/// Feedback timer in ticks (RFC 5348 §6.2: a round trip). Chosen by us: a tick more, in case no packet's window counter
/// shows the round trip's end.
const FEEDBACK_TICKS: u64 = ROUND_TRIP as u64 + 1;

/// A packet received for the first time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub(crate) seq: Seq,
    /// CCVal and payload bytes of a data packet; `None` for other packets.
    pub(crate) data: Option<(u8, u64)>,
    pub(crate) marked: bool,
    /// Packets without data right before it (NDP Count), or 0 if unknown.
    pub(crate) ndp_count: u64,
    /// Round-trip estimate of this end, used until the window counter gives one.
    pub(crate) rtt: Duration,
}

/// The receiver of one half-connection.
#[derive(Clone, Debug)]
pub(crate) struct Receiver {
    /// Whether it is for small packets: CCID 4.
    small: bool,
    /// Feedback interval, in ticks of the window counter.
    apart: u64,
    /// Sequence number at which the history starts.
    origin: Seq,
    history: History,
    arrivals: Arrivals,
    rtt: Duration,
    /// Whether feedback must leave now.
    due: bool,
    /// Whether data arrived since the last feedback.
    fresh: bool,
    /// Window counter at the last feedback (RFC 4342 §10.3).
    told: Option<u64>,
    timer: Option<Instant>,
    /// Whether the timer expired without new data: the next data packet is answered at once.
    silent: bool,
}

impl Receiver {
    /// Creates a receiver; `origin` is the peer's first packet under this congestion control.
    pub(crate) fn new(small: bool, origin: Seq) -> Self {
        Self {
            small,
            apart: u64::from(ROUND_TRIP),
            origin,
            history: History::default(),
            arrivals: Arrivals::default(),
            rtt: Duration::ZERO,
            due: false,
            fresh: false,
            told: None,
            timer: None,
            silent: false,
        }
    }

    /// Sets the number of feedback packets per round trip, at most four; each reports the rate of a whole round trip.
    pub(crate) fn telling(self, times: u64) -> Self {
        Self { apart: u64::from(ROUND_TRIP) / times.clamp(1, u64::from(ROUND_TRIP)), ..self }
    }

    /// CCID 3, or 4 for small packets.
    pub(crate) fn ccid(&self) -> Ccid {
        if self.small { Ccid::Ccid4 } else { Ccid::Ccid3 }
    }

    /// Notes a received packet.
    pub(crate) fn on_packet(&mut self, now: Instant, arrived: Arrived) {
        let Ok(number) = u64::try_from(arrived.seq.offset_from(self.origin)) else { return };
        self.rtt = self.arrivals.rtt().unwrap_or(arrived.rtt);
        let packet = Packet {
            number,
            counter: arrived.data.map(|(counter, _)| counter),
            marked: arrived.marked,
            no_data_before: arrived.ndp_count,
        };
        let (small, arrivals, rtt) = (self.small, &self.arrivals, self.rtt);
        let first = || first_length(small, arrivals.mean(), arrivals.rate_over(now, rtt), rtt);
        let news = self.history.arrive(packet, &first);
        let Some((_, bytes)) = arrived.data else {
            if news.began && self.told.is_some() {
                // "If no data packets have been received since the last feedback was sent, then no feedback packet is sent"
                // (RFC 5348 §6.2): a receive rate of nothing would be taken for one. The next data packet is answered at once.
                self.due |= self.fresh;
                self.silent |= !self.fresh;
            }
            return;
        };
        if self.silent {
            self.arrivals.after_silence(now, self.rtt);
        }
        self.arrivals.count(now, bytes, self.history.ticks());
        self.fresh = true;
        let is_on = |told| self.history.ticks() >= told + self.apart;
        self.due |= self.silent || news.began || news.removed || self.told.is_none_or(is_on);
    }

    /// Handles the timer: feedback may be due although no packet shows the end of a round trip.
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        if self.timer.is_some_and(|due| due <= now) {
            self.timer = None;
            self.due |= self.fresh;
            self.silent = !self.fresh;
        }
    }

    /// Time at which [`on_timeout`](Self::on_timeout) is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    /// Whether feedback must leave now.
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Upper bound of the size of the feedback options.
    pub(crate) fn options_len(&self) -> usize {
        // Receive Rate, Loss Event Rate, Loss Intervals, Dropped Packets.
        6 + 6 + 3 + 9 * KEPT_INTERVALS + if self.small { 2 + 3 * KEPT_INTERVALS } else { 0 }
    }

    /// Appends the feedback options, all or none (RFC 4342 §6). `rate`: include the Loss Event Rate.
    pub(crate) fn push_options(&mut self, now: Instant, rate: bool, options: &mut OptionList) {
        let (skip, intervals, lost) = self.history.told();
        let (mut told, mut counts) = (Vec::new(), Vec::new());
        encode_loss_intervals(skip, &intervals, &mut told);
        encode_drop_counts(lost, &mut counts);
        let received = self.arrivals.rate(now, self.rtt).min(f64::from(u32::MAX)) as u32;
        let (received, p) = (received.to_be_bytes(), encode_loss_event_rate(self.history.loss_event_rate(self.small)));
        let own = |kind, data| Opt::CcidSpecific { kind, data };
        let mut all = vec![own(RECEIVE_RATE, &received[..]), own(LOSS_INTERVALS, &told)];
        if self.small {
            all.push(own(DROPPED_PACKETS, &counts));
        }
        if rate {
            all.push(own(LOSS_EVENT_RATE, &p));
        }
        if options.push_all(&all).is_ok() {
            self.arrivals.told(now);
            let patience = self.rtt * FEEDBACK_TICKS / u64::from(ROUND_TRIP);
            (self.told, self.timer) = (Some(self.history.ticks()), Some(now + patience));
            (self.due, self.fresh, self.silent) = (false, false, false);
        }
    }
}

/// Data length of the interval before the first loss event: the one for which the throughput equation yields the
/// receive rate (RFC 5348 §6.3.1), at least half a packet per round trip.
fn first_length(small: bool, mean: f64, rate: f64, rtt: Duration) -> f64 {
    let (segment, rate) = if small {
        (NOMINAL_SEGMENT as f64, rate * (mean + HEADER as f64) / mean.max(1.0))
    } else {
        (mean.max(1.0), rate)
    };
    let least = segment / 2.0 / rtt.as_secs_f64().max(1e-6);
    let target = Rate::from_bps((rate.max(least) * 8.0) as u64);
    1.0 / equation::loss_event_rate(segment.round() as u64, rtt.max(Duration::from_micros(1)), target)
}

#[cfg(test)]
mod tests;
