//! TFRC receiver: processes data packets and decides when to send feedback (RFC 5348 §6).

use timeous_core::{Duration, Instant, Rate};

use super::arrivals::{Arrivals, ReceiveRate};
use super::equation;
use super::intervals::LossIntervals;
use super::losses::{Losses, News};

/// RTT assumed until the sender has sent one (RFC 4340 §3.4).
pub const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// Minimum rate after the first loss event, in packets per round trip (RFC 5348 §6.3.1).
const MIN_PACKETS_PER_RTT: f64 = 0.5;

/// Received data packet (RFC 5348 §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Sequence number, increased by one per data packet, without wrapping.
    pub seq: u64,
    /// Payload in bytes, without headers.
    pub bytes: u64,
    /// Whether the packet is ECN-marked (RFC 3168).
    pub marked: bool,
    /// Sender's RTT, from the packet or computed by the transport (RFC 4342 §8.1).
    pub rtt: Option<Duration>,
}

/// Feedback packet to the sender (RFC 5348 §3.2.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// Sequence number of the last packet received, from which the sender knows t_recvdata.
    pub last: u64,
    /// t_delay: time since that packet was received.
    pub delay: Duration,
    /// X_recv: receive rate of the last round trip; zero in the first feedback.
    pub receive_rate: Rate,
    /// p: the loss event rate, from 0 (no loss event) to 1.
    pub loss_event_rate: f64,
    /// Whether there was a new loss event since the last feedback.
    pub new_loss_event: bool,
}

/// Receiver of one TFRC flow. The driver passes packets and time, and sends each [`Feedback`] at once.
///
/// ```
/// use timeous_cm::tfrc::{Arrival, Receiver};
/// use timeous_core::{Duration, Instant};
/// let mut receiver = Receiver::new();
/// let rtt = Some(Duration::from_millis(100));
/// let mut packet = |seq, at| receiver.on_packet(at, Arrival { seq, bytes: 1_000, marked: false, rtt });
/// let at = |millis| Instant::ZERO + Duration::from_millis(millis);
/// assert!(packet(0, at(0)).is_some(), "the first packet is answered");
/// assert!(packet(2, at(20)).is_none() && packet(3, at(30)).is_none(), "1 may only be late");
/// let feedback = packet(4, at(40)).expect("a loss event is told at once");
/// assert!(feedback.new_loss_event && feedback.loss_event_rate > 0.0);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Receiver {
    losses: Losses,
    arrivals: Arrivals,
    /// R_m and R_(m-1): the latest RTT from the sender, and its value when the timer last expired.
    rtt: Option<Duration>,
    rtt_before: Duration,
    /// p_prev of RFC 5348 §6.1.
    p: f64,
    timer: Option<Instant>,
    /// The timer expired without new packets: the next packet is answered at once.
    silent: bool,
    /// Last received packet and its arrival time.
    last: Option<(u64, Instant)>,
    /// Whether packets arrived since the last feedback.
    fresh: bool,
    /// Number of loss events at the last feedback.
    told: u64,
    /// X_target: maximum receive rate so far, in packets per second.
    highest: f64,
}

impl Receiver {
    /// Creates a receiver that does not know the first sequence number: the first packet to arrive counts as the first.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a receiver that knows the first sequence number, and so notices if that packet is lost.
    pub fn expecting(first: u64) -> Self {
        Self { losses: Losses::expecting(first), ..Self::default() }
    }

    /// Processes a data packet (RFC 5348 §6.1, §6.3). Duplicates and packets that are too old are ignored.
    #[must_use = "the feedback is to be sent now"]
    pub fn on_packet(&mut self, now: Instant, arrival: Arrival) -> Option<Feedback> {
        if self.timer.is_some_and(|due| due <= now) && !self.fresh {
            // The driver called late: process the timer first.
            self.fall_silent();
        }
        let is_first = self.last.is_none();
        let news = self.record(now, arrival);
        if !news.is_new {
            return None;
        }
        if is_first || self.rtt.is_none() {
            // RFC 5348 §6.3: the RTT is not known yet.
            return self.expire(now);
        }
        if !news.began && !news.removed && !self.silent {
            return None;
        }
        // Step 3 of RFC 5348 §6.1.
        let before = std::mem::replace(&mut self.p, self.losses.rate());
        if self.p > before || self.silent || news.removed { self.expire(now) } else { None }
    }

    /// Handles the feedback timer (RFC 5348 §6.2).
    #[must_use = "the feedback is to be sent now"]
    pub fn on_timeout(&mut self, now: Instant) -> Option<Feedback> {
        if self.timer.is_none_or(|due| due > now) {
            return None;
        }
        if self.fresh {
            return self.expire(now);
        }
        self.fall_silent();
        None
    }

    /// Next time when [`Receiver::on_timeout`] is due; `None` while no packets arrive.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    /// Current loss event rate p: 0 before the first loss event, then above 0 and at most 1.
    pub fn loss_event_rate(&self) -> f64 {
        self.losses.rate()
    }

    /// Closed loss intervals.
    pub fn intervals(&self) -> &LossIntervals {
        self.losses.intervals()
    }

    /// Packets in the current loss interval, including the one that began it (RFC 5348 §5.3); 0 without loss events.
    pub fn current_interval(&self) -> u64 {
        self.losses.current()
    }

    /// Number of loss events, reduced when a late packet removes one.
    pub fn loss_events(&self) -> u64 {
        self.losses.events()
    }

    fn record(&mut self, now: Instant, arrival: Arrival) -> News {
        let rtt = arrival.rtt.or(self.rtt).unwrap_or(DEFAULT_RTT);
        if self.silent {
            self.arrivals.after_silence(now, self.rtt_before);
        }
        // Before the duplicate check, since the first loss event's interval is computed with this packet included.
        self.arrivals.count(arrival.bytes);
        let (arrivals, highest, before) = (&self.arrivals, self.highest, self.rtt_before);
        let first = |is_null: bool| {
            let packets = if is_null { 0.0 } else { arrivals.look(now, before.max(rtt)).packets.max(highest) };
            1.0 / equation::for_packets_a_round_trip((packets * rtt.as_secs_f64()).max(MIN_PACKETS_PER_RTT))
        };
        let news = self.losses.arrive(now, arrival.seq, arrival.marked, rtt, &first);
        if news.is_new {
            (self.last, self.fresh) = (Some((arrival.seq, now)), true);
            if news.is_highest || self.rtt.is_none() {
                self.rtt = arrival.rtt.or(self.rtt);
            }
        } else {
            self.arrivals.take_back(arrival.bytes);
        }
        news
    }

    fn fall_silent(&mut self) {
        (self.silent, self.timer) = (true, None);
    }

    /// Sends feedback when the timer expires with new packets: the steps of RFC 5348 §6.2.
    fn expire(&mut self, now: Instant) -> Option<Feedback> {
        let (last, at) = self.last?;
        self.p = self.losses.rate();
        let ReceiveRate { bytes, packets } = self.arrivals.rate(now, self.rtt_before);
        self.highest = self.highest.max(packets);
        let feedback = Feedback {
            last,
            delay: now.saturating_since(at),
            receive_rate: equation::to_rate(bytes),
            loss_event_rate: self.p,
            new_loss_event: self.losses.events() > self.told,
        };
        self.arrivals.expired(now);
        let rtt = self.rtt.unwrap_or(DEFAULT_RTT);
        (self.rtt_before, self.timer) = (rtt, Some(now + rtt));
        (self.silent, self.fresh, self.told) = (false, false, self.losses.events());
        Some(feedback)
    }
}

#[cfg(test)]
mod tests;
