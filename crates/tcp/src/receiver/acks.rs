//! When an acknowledgement is due (RFC 5681 §4.2, RFC 9293 §3.8.6.3).

use timeous_core::{Duration, Instant};

/// How acknowledgements of data in order are held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAck {
    /// How long one segment waits for a second one, or for data that go the other way: 500 ms at most (RFC 5681
    /// §4.2). Zero: every segment is acknowledged at once.
    pub delay: Duration,
    /// How many acknowledgements are not held back at first, so that a sender's slow start is not slowed.
    pub quick: u32,
    /// After so long without data, the sender starts slowly again: so there is as much quickness again.
    pub idle: Duration,
}

impl Default for DelayedAck {
    /// As Linux has them: 40 ms (`TCP_DELACK_MIN`), 16 (`TCP_MAX_QUICKACKS`), and its least retransmission timeout.
    fn default() -> Self {
        Self { delay: Duration::from_millis(40), quick: 16, idle: Duration::from_millis(200) }
    }
}

/// An answer to a segment that is not acceptable and holds nothing is given this often at most, lest two ends answer
/// each other for ever (Linux: `tcp_invalid_ratelimit`).
const EMPTY_ANSWER_INTERVAL: Duration = Duration::from_millis(500);

/// Every second segment is acknowledged at once, whatever its size (RFC 5681 §4.2).
const SEGMENTS_PER_ACK: u32 = 2;

/// What waits to be acknowledged.
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

    /// Data came in order, and nothing else is odd.
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

    /// The peer should hear now.
    pub(super) const fn at_once(&mut self) {
        self.at_once = true;
    }

    /// A segment was not acceptable: it is answered (RFC 9293 §3.10.7.4), an empty one not too often.
    pub(super) fn answer(&mut self, now: Instant, empty: bool) {
        if empty {
            if self.last_empty_answer.is_some_and(|last| now - last < EMPTY_ANSWER_INTERVAL) {
                return;
            }
            self.last_empty_answer = Some(now);
        }
        self.at_once = true;
    }

    /// A segment with an acknowledgement left.
    pub(super) fn sent(&mut self) {
        if self.unacked > 0 {
            self.quick = self.quick.saturating_sub(1);
        }
        self.unacked = 0;
        self.at_once = false;
        self.delayed = None;
    }

    /// Whether one must leave now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.at_once || self.delayed.is_some_and(|at| at <= now)
    }

    /// When one must leave at the latest.
    pub(super) const fn timeout(&self) -> Option<Instant> {
        self.delayed
    }
}
