//! The receiver half: what data packets tell, and when to send feedback (RFC 5348 §6).

use timeous_core::{Duration, Instant, Rate};

use super::arrivals::{Arrivals, ReceiveRate};
use super::equation;
use super::intervals::LossIntervals;
use super::losses::{Losses, News};

/// What a round trip is taken for until the sender has told one (RFC 4340 §3.4).
pub const DEFAULT_RTT: Duration = Duration::from_millis(200);
/// The least rate that the first loss event leaves, in packets a round trip (RFC 5348 §6.3.1).
const LEAST_PACKETS: f64 = 0.5;

/// A data packet that arrived (RFC 5348 §3.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number: one more for each data packet sent, without wrapping.
    pub seq: u64,
    /// Its payload in bytes, without headers.
    pub bytes: u64,
    /// Whether it met congestion on its way (ECN, RFC 3168).
    pub marked: bool,
    /// The sender's round-trip time as the packet tells it, or as the transport reckons it (RFC 4342 §8.1).
    pub rtt: Option<Duration>,
}

/// What the receiver tells the sender (RFC 5348 §3.2.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Feedback {
    /// The number of the packet that arrived last, for t_recvdata: when the sender sent it.
    pub last: u64,
    /// How long ago that was: t_delay.
    pub delay: Duration,
    /// X_recv: the rate at which data arrived during the last round trip; zero in the first feedback.
    pub receive_rate: Rate,
    /// p: from 0, without any loss event, to 1.
    pub loss_event_rate: f64,
    /// Whether there was a loss event since the feedback before.
    pub new_loss_event: bool,
}

/// The receiver of one TFRC flow. The driver gives it packets and the time, and sends each [`Feedback`] at once.
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
    /// R_m and R_(m-1): the newest round trip that was told, and what it was when the timer expired last.
    rtt: Option<Duration>,
    rtt_before: Duration,
    /// p_prev of RFC 5348 §6.1.
    p: f64,
    timer: Option<Instant>,
    /// The timer expired with nothing to tell: the next packet is answered at once.
    silent: bool,
    /// The packet that arrived last, and when.
    last: Option<(u64, Instant)>,
    /// Whether anything came since the last feedback.
    fresh: bool,
    /// Loss events when the last feedback was sent.
    told: u64,
    /// The highest receive rate so far, in packets a second: X_target.
    highest: f64,
}

impl Receiver {
    /// A receiver that knows nothing of the packets to come: the first that arrives counts as the first.
    pub fn new() -> Self {
        Self::default()
    }

    /// A receiver that knows the number of the first data packet, and so finds that one lost, too.
    pub fn expecting(first: u64) -> Self {
        Self { losses: Losses::expecting(first), ..Self::default() }
    }

    /// A data packet arrived (RFC 5348 §6.1, §6.3). Duplicates, and what is too old to matter, change nothing.
    #[must_use = "the feedback is to be sent now"]
    pub fn on_packet(&mut self, now: Instant, arrival: Arrival) -> Option<Feedback> {
        if self.timer.is_some_and(|due| due <= now) && !self.fresh {
            // The driver was late; the order of things is not.
            self.fall_silent();
        }
        let is_first = self.last.is_none();
        let news = self.record(now, arrival);
        if !news.is_new {
            return None;
        }
        if is_first || self.rtt.is_none() {
            // RFC 5348 §6.3: nobody knows yet when a round trip is over.
            return self.expire(now);
        }
        if !news.began && !news.removed && !self.silent {
            return None;
        }
        // Step 3 of RFC 5348 §6.1.
        let before = std::mem::replace(&mut self.p, self.losses.rate());
        if self.p > before || self.silent || news.removed { self.expire(now) } else { None }
    }

    /// Time has passed (RFC 5348 §6.2).
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

    /// When [`Receiver::on_timeout`] is due. Never while nothing arrives.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    /// The loss event rate p by now: 0 without any loss event, otherwise above 0 and at most 1.
    pub fn loss_event_rate(&self) -> f64 {
        self.losses.rate()
    }

    /// The loss intervals that are over.
    pub fn intervals(&self) -> &LossIntervals {
        self.losses.intervals()
    }

    /// Packets since the newest loss event began, its first in them (RFC 5348 §5.3); 0 without any.
    pub fn current_interval(&self) -> u64 {
        self.losses.current()
    }

    /// How many loss events there were. A packet that comes late after all takes one away.
    pub fn loss_events(&self) -> u64 {
        self.losses.events()
    }

    fn record(&mut self, now: Instant, arrival: Arrival) -> News {
        let rtt = arrival.rtt.or(self.rtt).unwrap_or(DEFAULT_RTT);
        if self.silent {
            self.arrivals.after_silence(now, self.rtt_before);
        }
        // Before it is known to be new: the first loss event is judged with this packet counted in.
        self.arrivals.count(arrival.bytes);
        let (arrivals, highest, before) = (&self.arrivals, self.highest, self.rtt_before);
        let first = |is_null: bool| {
            let packets = if is_null { 0.0 } else { arrivals.look(now, before.max(rtt)).packets.max(highest) };
            1.0 / equation::for_packets_a_round_trip((packets * rtt.as_secs_f64()).max(LEAST_PACKETS))
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

    /// The feedback timer expires with something to tell: the steps of RFC 5348 §6.2.
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
