//! The timers of a connection.

use timeous_core::{Duration, Instant};

/// Maximum retransmission interval (RFC 4340 §8.1.1, §8.3).
const MAX_BACKOFF: Duration = Duration::from_secs(64);

/// Returns `first` doubled `times` times, at most 64 seconds.
pub(super) fn backed_off(first: Duration, times: u32) -> Duration {
    (first * (1 << times.min(32))).min(MAX_BACKOFF)
}

/// Timer of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// Retransmission of a Request, the handshake's Ack, a CloseReq or a Close (RFC 4340 §8.1.1, §8.1.5, §8.3).
    Resend,
    /// Abandonment of the handshake or the close.
    GiveUp,
    /// Feedback timeout (RFC 4341 §5), or a peer that has to show that it is alive.
    Feedback,
    /// Overdue acknowledgement of sent data.
    Overdue,
    /// Parity of an open block is due.
    Parity,
    /// Peer considered dead after a long silence.
    Silence,
    /// Keep-alive probe of an idle peer.
    KeepAlive,
    /// Delayed acknowledgement (RFC 4340 §11.3), or feedback of CCID 3 or 4 once a round trip.
    AckDelay,
    /// Nofeedback timer: reduces the rate (RFC 5348 §4.4).
    NoFeedback,
    /// Minimum gap between data packets is over (RFC 5622 §5).
    Gap,
    /// Retransmission of Change options (RFC 4340 §6.6.3).
    Features,
    /// Path MTU discovery: a probe has no answer, or the search begins anew (RFC 8899).
    PathMtu,
    /// Retry after the peer dropped data for protocol constraints (RFC 4340 §11.7.2).
    Constraint,
    /// End of TIMEWAIT (RFC 4340 §8.3).
    TimeWait,
}

impl Timer {
    pub(crate) const ALL: [Self; 14] = [
        Self::Resend,
        Self::GiveUp,
        Self::Feedback,
        Self::Overdue,
        Self::Parity,
        Self::Silence,
        Self::KeepAlive,
        Self::AckDelay,
        Self::NoFeedback,
        Self::Gap,
        Self::Features,
        Self::PathMtu,
        Self::Constraint,
        Self::TimeWait,
    ];
}

/// Expiry time of each timer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimerTable([Option<Instant>; Timer::ALL.len()]);

impl TimerTable {
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    /// Sets the timer, or stops it for `None`.
    pub(crate) fn update(&mut self, timer: Timer, at: Option<Instant>) {
        self.0[timer as usize] = at;
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }

    /// Stops the timer and returns `true` if it has expired.
    pub(crate) fn expired(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.0[timer as usize].is_some_and(|at| at <= now);
        if due {
            self.stop(timer);
        }
        due
    }

    /// Earliest expiry of all timers.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }
}
