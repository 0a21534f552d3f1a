//! TFRC sender: allowed rate, nofeedback timer and pacing (RFC 5348 §4).

use timeous_core::{Duration, Instant, Rate, RateRange};

use super::allowed::{Allowed, FeedbackReport, Path, least};
use super::equation;
use super::limited::DataLimited;
use super::pacing::{Pacing, Schedule};
use super::receiver::Feedback;
use super::segment::MeanSegment;
use crate::controller::initial;

/// Nofeedback timer before the first RTT sample (RFC 5348 §4.2).
const INITIAL_TIMEOUT: Duration = Duration::from_secs(2);
/// Weight of the old smoothed RTT at each sample: `q` (RFC 5348 §4.3).
const RTT_WEIGHT: f64 = 0.9;
/// Weight of the old smoothed RTT without oscillation reduction: "a very low value of the weight q" (RFC 5348 §4.5).
/// The value is chosen by us: a higher one follows the path's queue more slowly.
const RTT_WEIGHT_UNREDUCED: f64 = 0.1;
/// Weight of the old long-term square root of the RTT: `q2` (RFC 5348 §4.5).
const SQRT_RTT_WEIGHT: f64 = 0.9;

/// Settings of a [`Sender`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Maximum segment size in bytes, without headers, for the initial rate. The mean size is measured.
    pub segment: u64,
    /// Segment size for rate computations in place of `segment` and of the mean, so that small segments get the rate of
    /// a flow with segments of this size (RFC 4828 §4.5).
    pub nominal: Option<u64>,
    /// Header bytes counted with each segment (RFC 4828 §4.2).
    pub header: u64,
    /// Whether the rate falls while the RTT is above its recent average: oscillation reduction (RFC 5348 §4.5).
    pub reduce_oscillations: bool,
    /// Timer granularity of the driver: a packet may leave early by half of it (RFC 5348 §8.3).
    pub granularity: Duration,
    /// Upper limit of the rate.
    pub ceiling: Rate,
}

impl Settings {
    /// Settings for segments of at most `segment` bytes, with oscillation reduction, exact timers and no rate limit.
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

    /// Settings of TFRC-SP (RFC 4828): small segments of at most `segment` bytes, plus `header` bytes each, get the
    /// rate of a flow with segments of `nominal` bytes.
    pub const fn for_small_segments(segment: u64, nominal: u64, header: u64) -> Self {
        Self { nominal: Some(nominal), header, ..Self::for_segment(segment) }
    }
}

/// Feedback, as processed by the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// t_recvdata: send time of the last packet received.
    pub sent_at: Instant,
    /// t_delay: time between the packet's arrival and the feedback.
    pub delay: Duration,
    /// X_recv.
    pub receive_rate: Rate,
    /// p, from 0 to 1.
    pub loss_event_rate: f64,
    /// Whether the receiver reports a new loss event; an increase of p counts as one, too.
    pub new_loss_event: bool,
}

impl Report {
    /// Converts feedback, for whose last packet the sender has looked up the send time.
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

/// Error: invalid report, to be dropped. The sender is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The loss event rate is out of range.
    #[error("the peer reports a loss event rate of {0}: it has to be from 0 to 1")]
    LossEventRate(f64),
    /// The delay leaves no time for the round trip.
    #[error("the peer says that it had a packet for {delay:?}, which was sent {passed:?} ago")]
    Delay {
        /// Delay that the peer reports.
        delay: Duration,
        /// Time since the packet was sent.
        passed: Duration,
    },
}

/// Sender of one TFRC flow.
///
/// The driver calls [`on_sent`](Self::on_sent) after each packet and asks [`next`](Self::next) for the next send time.
/// If it has no data then, the flow is data-limited, which is detected without a call.
#[derive(Clone, Debug)]
pub struct Sender {
    settings: Settings,
    allowed: Allowed,
    segment: MeanSegment,
    rtt: Option<Duration>,
    /// X_recv as last reported, if nonzero.
    received: Option<f64>,
    /// Whether there was feedback, not only an RTT sample.
    heard: bool,
    square_root: f64,
    /// Ratio of X_inst to X.
    share: f64,
    timer: Option<Instant>,
    sent_since_set: bool,
    limited: DataLimited,
    pacing: Pacing,
    /// Rate that the stream needs, in bytes of payload per second.
    floor: f64,
    /// Upper end of the stream's range.
    ceiling: Rate,
}

impl Sender {
    /// Creates a sender for an unknown path: one segment per second until the first RTT sample (RFC 5348 §4.2).
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
            floor: 0.0,
            ceiling: Rate::MAX,
        }
    }

    /// Keeps the rate within a range: never above its ceiling, and below its floor only as far as the throughput equation
    /// demands, and slow start before the first loss.
    pub fn set_range(&mut self, range: Option<RateRange>) {
        let RateRange { floor, ceiling } = range.unwrap_or(RateRange { floor: Rate::ZERO, ceiling: Rate::MAX });
        self.ceiling = ceiling;
        self.floor = equation::to_bytes(floor);
        self.allowed.hold(self.floor / self.payload_share());
    }

    /// Sets the RTT if it is known otherwise, for example from a handshake: allows an initial window per round trip
    /// (RFC 5348 §4.2). No effect after the first RTT sample.
    pub fn on_rtt(&mut self, now: Instant, rtt: Duration) {
        if self.rtt.is_none() && !rtt.is_zero() {
            self.rtt = Some(rtt);
            self.allowed.start(now, &self.path(rtt));
            self.set_timer(now);
        }
    }

    /// Notes that a data packet of `bytes`, without headers, was handed to the layer below.
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

    /// Notes that a data packet is waiting for its send time: the sender is not data-limited. For drivers with an
    /// external pacer, which keeps no credit.
    pub fn on_held_back(&mut self, now: Instant) {
        self.limited.sent_all(now);
    }

    /// Processes feedback: the steps of RFC 5348 §4.3.
    ///
    /// # Errors
    /// The report is invalid; nothing has changed.
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
        // With an RTT known before, too, a first feedback measures no rate: a loss in it must not limit the rate to none.
        let is_first = !self.heard && (self.rtt.is_none() || receive_rate == 0.0 && p > 0.0);
        if !is_first {
            let limited = self.limited.on_feedback(now, report.sent_at, rtt);
            self.allowed.on_feedback(
                now,
                &path,
                FeedbackReport {
                    receive_rate,
                    p,
                    new_loss_event: report.new_loss_event || p > self.allowed.p(),
                    // The first feedback measures no rate, so that it covers no interval.
                    data_limited: limited && report.receive_rate > Rate::ZERO,
                },
            );
        } else {
            self.limited.on_feedback(now, report.sent_at, rtt);
            self.allowed.on_first_feedback(now, &path, p);
        }
        (self.rtt, self.heard) = (Some(rtt), true);
        // Step 3 uses the rate before the update.
        self.set_timer_by(now, before);
        Ok(())
    }

    /// Responds to a slow receiver, or to `overflowed` newly reported packets that its buffer had no room for (RFC 4342
    /// §5.2). To be called after the feedback that came along.
    ///
    /// Limits X to the receive rate minus one packet per round trip for each dropped packet, but not below one. The
    /// next feedback mostly ends the limit.
    pub fn on_slow_receiver(&mut self, now: Instant, overflowed: u64) {
        let (Some(rtt), Some(received)) = (self.rtt, self.received) else { return };
        let one = self.path(rtt).segment / rtt.as_secs_f64();
        let fewer = |rate: f64| (rate - overflowed as f64 * one).max(rate.min(one));
        let before = self.allowed.rate();
        let limit = fewer(before).min(fewer(received)).max(before.min(one));
        self.allowed.restrain(now, limit);
    }

    /// Handles the nofeedback timer (RFC 5348 §4.4).
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
            // The rate stays until something is sent, which then gets a full timeout.
            self.timer = None;
        } else {
            self.set_timer(now);
        }
    }

    /// Next time when [`Sender::on_timeout`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    /// Send time of the next packet; `None` before the first, which may leave at once. Lies in the past by the unused credit.
    pub fn next(&self) -> Option<Instant> {
        self.pacing.next(&self.schedule())
    }

    /// Whether a packet may leave now.
    pub fn may_send(&self, now: Instant) -> bool {
        self.next().is_none_or(|at| at <= now)
    }

    /// X: the allowed sending rate.
    pub fn rate(&self) -> Rate {
        equation::to_rate(self.allowed.rate() * self.payload_share()).min(self.most())
    }

    /// X_inst: the pacing rate, which oscillation reduction makes lower or higher than X.
    pub fn instantaneous_rate(&self) -> Rate {
        equation::to_rate(self.instantaneous())
    }

    /// R: the smoothed RTT, which data packets carry to the receiver.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// p, as last reported.
    pub fn loss_event_rate(&self) -> f64 {
        self.allowed.p()
    }

    /// s: the mean segment size in bytes.
    pub fn segment(&self) -> f64 {
        self.segment.mean()
    }

    /// Updates R and the ratio of X_inst to X: steps 2 and 5 of RFC 5348 §4.3.
    fn sample(&mut self, sample: Duration) -> Duration {
        let root = sample.as_secs_f64().sqrt();
        if !self.heard {
            (self.square_root, self.share) = (root, 1.0);
            return sample;
        }
        let reduces = self.settings.reduce_oscillations;
        self.square_root = SQRT_RTT_WEIGHT * self.square_root + (1.0 - SQRT_RTT_WEIGHT) * root;
        self.share = if reduces { self.square_root / root } else { 1.0 };
        let kept = if reduces { RTT_WEIGHT } else { RTT_WEIGHT_UNREDUCED };
        let before = self.rtt.unwrap_or(sample);
        Duration::from_secs_f64(kept * before.as_secs_f64() + (1.0 - kept) * sample.as_secs_f64())
    }

    fn instantaneous(&self) -> f64 {
        let ceiling = equation::to_bytes(self.most());
        let allowed = self.allowed.rate() * self.payload_share();
        // A longer queue is no reason to fall below what the stream needs and the equation allows.
        let rate = (allowed * self.share).max(self.floor.min(allowed));
        rate.max(least(self.segment.mean())).min(ceiling)
    }

    /// Upper limit of the rate, by the settings and the stream's range.
    fn most(&self) -> Rate {
        self.settings.ceiling.min(self.ceiling)
    }

    /// Share of the payload in a packet whose header is counted.
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

    /// RTO = max(4R, 2s/X); before the first RTT sample, two seconds in place of 4R.
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
