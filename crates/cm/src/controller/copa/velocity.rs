//! Copa's velocity: step size and direction of the window (Arun & Balakrishnan §2.1).

use timeous_core::{Duration, Instant};

/// Round trips in one direction after which the velocity doubles per round trip (Arun & Balakrishnan §2.1).
const DOUBLING_ROUNDS: u32 = 3;

/// Velocity of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Velocity {
    factor: f64,
    grows: bool,
    /// Consecutive round trips in that direction.
    rounds: u32,
    /// Start of the current round trip, and the window then.
    began: Option<(Instant, f64)>,
}

impl Velocity {
    /// Velocity of one packet step, before the first round trip.
    pub(super) const INITIAL: Self = Self { factor: 1.0, grows: true, rounds: 0, began: None };

    /// Returns the velocity for growing or shrinking: a change of direction resets it, each round trip in one direction counts.
    pub(super) fn towards(&mut self, now: Instant, grows: bool, window: f64, round: Duration) -> f64 {
        if grows != self.grows {
            *self = Self { grows, ..Self::INITIAL };
        }
        let (began, before) = *self.began.get_or_insert((now, window));
        if now.saturating_since(began) >= round {
            self.began = Some((now, window));
            let went = if grows { window > before } else { window < before };
            self.rounds = if went { self.rounds + 1 } else { 0 };
            self.factor = if self.rounds >= DOUBLING_ROUNDS { self.factor * 2.0 } else { 1.0 };
        }
        self.factor
    }
}
