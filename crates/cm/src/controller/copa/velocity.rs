//! How fast Copa's window goes, and where (Arun & Balakrishnan §2.1).

use timeous_core::{Duration, Instant};

/// So many round trips in one direction, and the velocity doubles with the next (§2.1 has one more).
const STEADY: u32 = 2;

/// How fast the window goes, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Velocity {
    factor: f64,
    grows: bool,
    /// Round trips in that direction.
    rounds: u32,
    /// When the round trip began, and with which window.
    began: Option<(Instant, f64)>,
}

impl Velocity {
    pub(super) const STILL: Self = Self { factor: 1.0, grows: true, rounds: 0, began: None };

    /// The window is to grow, or shrink: a change of mind begins anew, and a round trip in one direction counts.
    pub(super) fn towards(&mut self, now: Instant, grows: bool, window: f64, round: Duration) -> f64 {
        if grows != self.grows {
            *self = Self { grows, ..Self::STILL };
        }
        let (began, before) = *self.began.get_or_insert((now, window));
        if now.saturating_since(began) >= round {
            self.began = Some((now, window));
            let went = if grows { window > before } else { window < before };
            self.rounds = if went { self.rounds + 1 } else { 0 };
            self.factor = if self.rounds > STEADY { self.factor * 2.0 } else { 1.0 };
        }
        self.factor
    }
}
