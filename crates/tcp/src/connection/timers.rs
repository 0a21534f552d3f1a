//! The timers of a connection.

use timeous_core::Instant;

/// What a connection waits for. At one instant they go off in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Timer {
    /// Send the SYN, alone or with its ACK, again.
    Handshake,
    /// A segment that was overtaken is lost by now (RFC 8985 §6.2, step 5).
    Reordering,
    /// No acknowledgement has come for the end of a flight: probe (RFC 8985 §7.2). It puts the next one off.
    TailProbe,
    /// No acknowledgement has come (RFC 6298 §5).
    Retransmit,
    /// The peer's window is closed, and nothing under way would tell when it opens (RFC 9293 §3.8.6.1).
    Persist,
    /// The user timeout (RFC 9293 §3.8.3).
    GiveUp,
    /// TIME-WAIT is over.
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

/// When each timer goes off.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimerTable([Option<Instant>; Timer::ALL.len()]);

impl TimerTable {
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.0[timer as usize] = Some(at);
    }

    pub(crate) fn set_to(&mut self, timer: Timer, at: Option<Instant>) {
        self.0[timer as usize] = at;
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
