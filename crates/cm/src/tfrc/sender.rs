//! The sender half: the allowed rate, the nofeedback timer, and when the next packet may leave (RFC 5348 §4).

use timeous_core::{Duration, Instant, Rate};

use super::allowed::{Allowed, Heard, Path, least};
use super::equation;
use super::limited::DataLimited;
use super::pacing::{Pacing, Schedule};
use super::receiver::Feedback;
use super::segment::MeanSegment;
use crate::controller::initial;

/// The nofeedback timer before there is a round trip (RFC 5348 §4.2).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// q: what the smoothed round trip keeps at each sample (RFC 5348 §4.3).
const KEPT: f64 = 0.9;
/// The same without oscillation reduction: "a very low value of the weight q" (RFC 5348 §4.5).
const KEPT_UNREDUCED: f64 = 0.1;
/// q2: what the long-term square root of the round trip keeps (RFC 5348 §4.5).
const KEPT_SQUARE_ROOT: f64 = 0.9;

/// What a [`Sender`] may be told at its start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The largest segment in bytes, without headers: the initial rate follows from it. The mean segment size is measured.
    pub segment: u64,
    /// The segment size that rates are reckoned with in place of `segment` and of the mean: for small segments that get what
    /// a flow of such ones would get (RFC 4828 §4.5).
    pub nominal: Option<u64>,
    /// Bytes of headers that count with each segment (RFC 4828 §4.2).
    pub header: u64,
    /// Whether the rate falls while the round trip is longer than of late (RFC 5348 §4.5).
    pub reduce_oscillations: bool,
    /// How exactly the driver wakes up: half of it, a packet may leave early (RFC 5348 §8.3).
    pub granularity: Duration,
    /// More is never sent, whatever the receiver says.
    pub ceiling: Rate,
}

impl Settings {
    /// For segments of at most `segment` bytes: oscillations are reduced, packets leave on time, and there is no ceiling.
    pub const fn for_segment(segment: u64) -> Self {
        Self {
            segment,
            nominal: None,
            header: 0,
            reduce_oscillations: true,
            granularity: Duration::ZERO,
            ceiling: Rate::MAX,
        }
    }

    /// For small segments of at most `segment` bytes, which with `header` bytes each get what a flow of segments of
    /// `nominal` bytes would get: TFRC-SP (RFC 4828).
    pub const fn for_small_segments(segment: u64, nominal: u64, header: u64) -> Self {
        Self { nominal: Some(nominal), header, ..Self::for_segment(segment) }
    }
}

/// Feedback as it reaches the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// When the packet was sent that the receiver had got last: t_recvdata.
    pub sent_at: Instant,
    /// How long the receiver had had it: t_delay.
    pub delay: Duration,
    /// X_recv.
    pub receive_rate: Rate,
    /// p, from 0 to 1.
    pub loss_event_rate: f64,
    /// Whether the receiver names a new loss event; an increase of p is one, too.
    pub new_loss_event: bool,
}

impl Report {
    /// A feedback, of which the sender has looked up when its last packet was sent.
    pub fn of(feedback: &Feedback, sent_at: Instant) -> Self {
        Self {
            sent_at,
            delay: feedback.delay,
            receive_rate: feedback.receive_rate,
            loss_event_rate: feedback.loss_event_rate,
            new_loss_event: feedback.new_loss_event,
        }
    }
}

/// A report that the peer cannot have meant. Nothing changes; drop it.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ReportError {
    /// The loss event rate is no share.
    #[error("the peer reports a loss event rate of {0}: it has to be from 0 to 1")]
    LossEventRate(f64),
    /// No time is left for the way there and back.
    #[error("the peer says that it had a packet for {delay:?}, which was sent {passed:?} ago")]
    Delay {
        /// What the peer says.
        delay: Duration,
        /// What has passed since the packet was sent.
        passed: Duration,
    },
}

/// The sender of one TFRC flow.
///
/// After each packet the driver calls [`on_sent`](Self::on_sent); it asks [`next`](Self::next) when the next one may leave.
/// A driver that has data then sends at that instant; one that has none is data-limited, which need not be said.
#[derive(Clone, Debug)]
pub struct Sender {
    settings: Settings,
    allowed: Allowed,
    segment: MeanSegment,
    rtt: Option<Duration>,
    /// X_recv as it was told last, if it measured anything.
    received: Option<f64>,
    /// Whether there was feedback, not only a round trip.
    heard: bool,
    square_root: f64,
    /// What X_inst is of X.
    share: f64,
    timer: Option<Instant>,
    sent_since_set: bool,
    limited: DataLimited,
    pacing: Pacing,
}

impl Sender {
    /// A sender that knows nothing of the path: one segment a second until there is a round trip (RFC 5348 §4.2).
    pub fn new(settings: Settings) -> Self {
        let segment = MeanSegment::new(settings.segment);
        Self {
            allowed: Allowed::new(settings.nominal.map_or(segment.mean(), |nominal| nominal as f64)),
            settings,
            segment,
            rtt: None,
            received: None,
            heard: false,
            square_root: 0.0,
            share: 1.0,
            timer: None,
            sent_since_set: false,
            limited: DataLimited::default(),
            pacing: Pacing::default(),
        }
    }

    /// The round trip is known from elsewhere, from a handshake say: an initial window a round trip may leave
    /// (RFC 5348 §4.2). No effect once there is one.
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        if self.rtt.is_none() && !rtt.is_zero() {
            self.rtt = Some(rtt);
            self.allowed.start(now, &self.path(rtt));
            self.set_timer(now);
        }
    }

    /// A data packet of `bytes`, without headers, was handed to the layer below.
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.segment.sent(bytes, self.allowed.p());
        self.pacing.sent(now, bytes, &self.schedule());
        if !self.may_send(now) {
            self.limited.sent_all(now);
        }
        if self.timer.is_none() {
            self.set_timer(now);
        }
        self.sent_since_set = true;
    }

    /// A data packet is there and may not leave: the sender is not data-limited. For a driver that has packets paced by
    /// somebody else, who keeps no credit.
    pub fn on_held_back(&mut self, now: Instant) {
        self.limited.sent_all(now);
    }

    /// Feedback came: the steps of RFC 5348 §4.3.
    ///
    /// # Errors
    /// What the peer reports cannot be; nothing has changed.
    pub fn on_feedback(&mut self, now: Instant, report: Report) -> Result<(), ReportError> {
        let p = report.loss_event_rate;
        if !(0.0..=1.0).contains(&p) {
            return Err(ReportError::LossEventRate(p));
        }
        let passed = now.saturating_since(report.sent_at);
        let sample = passed.saturating_sub(report.delay);
        if sample.is_zero() {
            return Err(ReportError::Delay { delay: report.delay, passed });
        }
        let rtt = self.sample(sample);
        let before = self.allowed.rate();
        let path = self.path(rtt);
        let receive_rate = equation::to_bytes(report.receive_rate) / self.payload_share();
        self.received = Some(receive_rate).filter(|rate| *rate > 0.0);
        if self.heard || self.rtt.is_some() {
            let limited = self.limited.on_feedback(now, report.sent_at, rtt);
            self.allowed.on_feedback(
                now,
                &path,
                Heard {
                    receive_rate,
                    p,
                    new_loss_event: report.new_loss_event || p > self.allowed.p(),
                    // The first feedback measures nothing, so that it tells of no interval.
                    data_limited: limited && report.receive_rate > Rate::ZERO,
                },
            );
        } else {
            self.limited.on_feedback(now, report.sent_at, rtt);
            self.allowed.on_first_feedback(now, &path, p);
        }
        (self.rtt, self.heard) = (Some(rtt), true);
        // Step 3 reckons with the rate as it was.
        self.set_timer_by(now, before);
        Ok(())
    }

    /// The receiver says that it is slow, or that its buffer had no room for `overflowed` packets of which nothing was told
    /// before: RFC 4342 §5.2. To be called after the feedback that came along.
    ///
    /// X is at most what was received, less a packet a round trip for each that was dropped, and not below one for that.
    /// With the next feedback most of it is over.
    pub fn on_slow_receiver(&mut self, now: Instant, overflowed: u64) {
        let (Some(rtt), Some(received)) = (self.rtt, self.received) else { return };
        let one = self.path(rtt).segment / rtt.as_secs_f64();
        let fewer = |rate: f64| (rate - overflowed as f64 * one).max(rate.min(one));
        let before = self.allowed.rate();
        let limit = fewer(before).min(fewer(received)).max(before.min(one));
        self.allowed.restrain(now, limit);
    }

    /// Time has passed: the nofeedback timer may have expired (RFC 5348 §4.4).
    pub fn on_timeout(&mut self, now: Instant) {
        if self.timer.is_none_or(|due| due > now) {
            return;
        }
        let idle = !self.sent_since_set;
        let before = self.allowed.rate();
        match self.rtt {
            Some(rtt) => self.allowed.on_silence(now, &self.path(rtt), idle),
            None => self.allowed.on_silence_at_first(self.segment.mean(), idle),
        }
        if idle && self.allowed.rate() >= before {
            // Nothing will change until something is sent, and then it is owed a whole timeout.
            self.timer = None;
        } else {
            self.set_timer(now);
        }
    }

    /// When [`Sender::on_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    /// When the next packet may leave; `None`: at once, there was none yet. In the past, as much as is still to credit.
    pub fn next(&self) -> Option<Instant> {
        self.pacing.next(&self.schedule())
    }

    /// Whether a packet may leave now.
    pub fn may_send(&self, now: Instant) -> bool {
        self.next().is_none_or(|at| at <= now)
    }

    /// X: the allowed sending rate.
    pub fn rate(&self) -> Rate {
        equation::to_rate(self.allowed.rate() * self.payload_share()).min(self.settings.ceiling)
    }

    /// X_inst: the rate that packets leave at, which oscillation reduction makes less or more than X.
    pub fn instantaneous_rate(&self) -> Rate {
        equation::to_rate(self.instantaneous())
    }

    /// R: the smoothed round-trip time, which data packets tell the receiver.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// p, as it was reported last.
    pub fn loss_event_rate(&self) -> f64 {
        self.allowed.p()
    }

    /// s: the mean segment size in bytes.
    pub fn segment(&self) -> f64 {
        self.segment.mean()
    }

    /// Steps 2 and 5 of RFC 5348 §4.3: the new R, and what X_inst is of X.
    fn sample(&mut self, sample: Duration) -> Duration {
        let root = sample.as_secs_f64().sqrt();
        if !self.heard {
            (self.square_root, self.share) = (root, 1.0);
            return sample;
        }
        let reduces = self.settings.reduce_oscillations;
        self.square_root = KEPT_SQUARE_ROOT * self.square_root + (1.0 - KEPT_SQUARE_ROOT) * root;
        self.share = if reduces { self.square_root / root } else { 1.0 };
        let kept = if reduces { KEPT } else { KEPT_UNREDUCED };
        let before = self.rtt.unwrap_or(sample);
        Duration::from_secs_f64(kept * before.as_secs_f64() + (1.0 - kept) * sample.as_secs_f64())
    }

    fn instantaneous(&self) -> f64 {
        let ceiling = equation::to_bytes(self.settings.ceiling);
        let rate = self.allowed.rate() * self.share * self.payload_share();
        rate.max(least(self.segment.mean())).min(ceiling)
    }

    /// What of a packet that counts with its header is not header.
    fn payload_share(&self) -> f64 {
        let mean = self.segment.mean();
        mean / (mean + self.settings.header as f64)
    }

    fn schedule(&self) -> Schedule {
        Schedule {
            rate: self.instantaneous(),
            segment: self.segment.mean(),
            rtt: self.rtt,
            granularity: self.settings.granularity,
        }
    }

    fn path(&self, rtt: Duration) -> Path {
        let nominal = self.settings.nominal;
        let initial_window = initial::rfc3390(nominal.unwrap_or(self.settings.segment));
        Path { rtt, segment: nominal.map_or(self.segment.mean(), |nominal| nominal as f64), initial_window }
    }

    fn set_timer(&mut self, now: Instant) {
        self.set_timer_by(now, self.allowed.rate());
    }

    /// RTO = max(4R, 2s/X); without a round trip, two seconds of a segment each and so on.
    fn set_timer_by(&mut self, now: Instant, rate: f64) {
        let segment = self.segment.mean() + self.settings.header as f64;
        let two_segments = Duration::from_secs_f64(2.0 * segment / rate);
        let least = self.rtt.map_or(INITIAL_TIMEOUT, |rtt| rtt * 4);
        self.timer = Some(now + least.max(two_segments));
        self.sent_since_set = false;
    }
}

#[cfg(test)]
mod tests;
