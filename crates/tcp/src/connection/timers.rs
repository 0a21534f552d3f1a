//! The timers of a connection.

use timeous_core::{Duration, Instant};

/// Timers of a connection. Those due at the same instant expire in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// Retransmission of the SYN or SYN-ACK.
    Handshake,
    /// RACK reordering timer: an overtaken segment is lost by now (RFC 8985 §6.2, step 5).
    Reordering,
    /// Tail loss probe: the end of a flight is not acknowledged (RFC 8985 §7.2). It delays the retransmission timer.
    TailProbe,
    /// Retransmission timer (RFC 6298 §5).
    Retransmit,
    /// Persist timer: the peer's window is closed, and no acknowledgement will report its opening (RFC 9293 §3.8.6.1).
    Persist,
    /// User timeout (RFC 9293 §3.8.3).
    GiveUp,
    /// End of TIME-WAIT.
    TimeWait,
}

impl Timer {
    pub(crate) const ALL: [Self; 7] = [
        Self::Handshake,
        Self::Reordering,
        Self::TailProbe,
        Self::Retransmit,
        Self::Persist,
        Self::GiveUp,
        Self::TimeWait,
    ];
}

/// Expiry time of each timer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimerTable([Option<Instant>; Timer::ALL.len()]);

impl TimerTable {
    pub(crate) fn set(&mut self, timer: Timer, at: impl Into<Option<Instant>>) {
        self.0[timer as usize] = at.into();
    }

    pub(crate) fn stop(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn get(&self, timer: Timer) -> Option<Instant> {
        self.0[timer as usize]
    }

    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.get(timer).is_some()
    }

    /// Stops the timer and returns `true` if it is due.
    pub(crate) fn expired(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.get(timer).is_some_and(|at| at <= now);
        if due {
            self.stop(timer);
        }
        due
    }

    /// Returns the earliest expiry time.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }
}

/// Maximum of a backed-off timeout (RFC 6298 §2.5 requires at least a minute; Linux uses two).
const MAX_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns `first`, doubled `times` times.
pub(super) fn backed_off(first: Duration, times: u32) -> Duration {
    (first * (1 << times.min(32))).min(MAX_TIMEOUT)
}
