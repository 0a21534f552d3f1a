//! Timing of acknowledgements (RFC 5681 §4.2, RFC 9293 §3.8.6.3).

use timeous_core::{Duration, Instant};

/// Delayed acknowledgements of data in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAck {
    /// Maximum delay, while waiting for a second segment or for outgoing data: at most 500 ms (RFC 5681 §4.2). Zero:
    /// every segment is acknowledged at once.
    pub delay: Duration,
    /// Number of initial acknowledgements without delay, so that the sender's slow start is not slowed.
    pub quick: u32,
    /// Idle time after which the sender slow-starts again, and `quick` is restored.
    pub idle: Duration,
}

impl Default for DelayedAck {
    /// Returns Linux's values: 40 ms (`TCP_DELACK_MIN`), 16 (`TCP_MAX_QUICKACKS`), and its minimum retransmission
    /// timeout.
    fn default() -> Self {
        Self { delay: Duration::from_millis(40), quick: 16, idle: Duration::from_millis(200) }
    }
}

/// Minimum interval between answers to unacceptable segments without data, lest two ends answer each other for ever
/// (Linux: `tcp_invalid_ratelimit`).
const EMPTY_ANSWER_INTERVAL: Duration = Duration::from_millis(500);

/// Every second segment is acknowledged at once, whatever its size (RFC 5681 §4.2).
const SEGMENTS_PER_ACK: u32 = 2;

/// Schedule of acknowledgements.
#[derive(Debug)]
pub(super) struct AckSchedule {
    policy: DelayedAck,
    at_once: bool,
    delayed: Option<Instant>,
    /// Segments in order since the last ACK.
    unacked: u32,
    quick: u32,
    last_data: Option<Instant>,
    last_empty_answer: Option<Instant>,
}

impl AckSchedule {
    pub(super) const fn new(policy: DelayedAck) -> Self {
        Self {
            policy,
            at_once: false,
            delayed: None,
            unacked: 0,
            quick: policy.quick,
            last_data: None,
            last_empty_answer: None,
        }
    }

    /// Schedules an acknowledgement of data in order, delayed where possible.
    pub(super) fn in_order(&mut self, now: Instant) {
        if self.last_data.is_some_and(|last| now - last > self.policy.idle) {
            self.quick = self.policy.quick;
        }
        self.last_data = Some(now);
        self.unacked += 1;
        if self.quick > 0 || self.unacked >= SEGMENTS_PER_ACK || self.policy.delay.is_zero() {
            self.at_once = true;
        } else {
            self.delayed.get_or_insert(now + self.policy.delay);
        }
    }

    /// Makes an acknowledgement due now.
    pub(super) const fn at_once(&mut self) {
        self.at_once = true;
    }

    /// Answers an unacceptable segment (RFC 9293 §3.10.7.4), rate-limited if it is empty.
    pub(super) fn answer(&mut self, now: Instant, empty: bool) {
        if empty {
            if self.last_empty_answer.is_some_and(|last| now - last < EMPTY_ANSWER_INTERVAL) {
                return;
            }
            self.last_empty_answer = Some(now);
        }
        self.at_once = true;
    }

    /// Notes that an acknowledgement was sent.
    pub(super) fn sent(&mut self) {
        if self.unacked > 0 {
            self.quick = self.quick.saturating_sub(1);
        }
        self.unacked = 0;
        self.at_once = false;
        self.delayed = None;
    }

    /// Returns whether an acknowledgement is due now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.at_once || self.delayed.is_some_and(|at| at <= now)
    }

    /// Returns when a delayed acknowledgement is due.
    pub(super) const fn timeout(&self) -> Option<Instant> {
        self.delayed
    }
}
