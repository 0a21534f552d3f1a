//! The timers of a connection.

use timeous_core::Instant;

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// Send the Request, the handshake's Ack, the CloseReq or the Close again (RFC 4340 §8.1.1, §8.1.5, §8.3).
    Resend,
    /// Give the handshake or the closing up.
    GiveUp,
    /// No feedback came for what was sent (RFC 4341 §5), or the peer owes a sign of life.
    Feedback,
    /// What was sent should have been acknowledged by now.
    Overdue,
    /// The parity of what was sent has to leave.
    Parity,
    /// The peer has been silent for too long.
    Silence,
    /// Nothing has come for so long that the peer is asked whether it still lives.
    KeepAlive,
    /// An acknowledgement has waited long enough (RFC 4340 §11.3), or a round trip is over since the last feedback.
    AckDelay,
    /// No feedback came for so long that the rate falls (RFC 5348 §4.4).
    NoFeedback,
    /// The next data packet has waited long enough after the last (RFC 5622 §5).
    Gap,
    /// Send Change options again (RFC 4340 §6.6.3).
    Features,
    /// The peer refused data by a rule of the protocol: that rule may not hold any longer (RFC 4340 §11.7.2).
    Constraint,
    /// TIMEWAIT is over (RFC 4340 §8.3).
    TimeWait,
}

impl Timer {
    pub(crate) const ALL: [Self; 13] = [
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
        Self::Constraint,
        Self::TimeWait,
    ];
}

/// When each timer goes off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimerTable([Option<Instant>; Timer::ALL.len()]);

impl TimerTable {
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
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

    /// Stops the timer and says `true` if it is due.
    pub(crate) fn expired(&mut self, timer: Timer, now: Instant) -> bool {
        let due = self.get(timer).is_some_and(|at| at <= now);
        if due {
            self.stop(timer);
        }
        due
    }

    /// The first to go off.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }
}
