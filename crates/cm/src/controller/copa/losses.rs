//! What Copa makes of losses: they are congestion where the queue is full, or where they are many.

use timeous_core::{Duration, Instant};

use super::super::queueing::Look;
use super::{Copa, LOST, Mode};

/// This much of what the path was seen to hold waits: it is full.
const FULL: f64 = 0.75;
/// What was learnt of a full queue counts for so long.
pub(super) const FULL_FOR: Duration = Duration::from_secs(10);
/// More than this share lost is congestion, whatever waits.
const MAX_LOSS: f64 = 0.1;

impl Copa {
    /// More is lost than a path may lose that is not too busy.
    pub(super) fn mind_losses(&mut self, now: Instant, look: &Look) {
        let Some(lost) = self.path.take_loss_share() else { return };
        self.is_worn = lost > MAX_LOSS;
        if self.is_worn && self.mode == Mode::Short {
            self.reduce_to(now, look, (1.0 - lost).clamp(0.5, LOST));
        }
    }

    /// As much waited as ever did of late. One packet waits for the one before it wherever an acknowledgement comes for two.
    pub(super) fn is_full(&self) -> bool {
        let holds = |look: Look| {
            let is_most = look.waited.as_secs_f64() >= FULL * look.peak.as_secs_f64();
            is_most && look.waited > look.packet_time * 3 / 2 && !look.waited.is_zero()
        };
        self.path.look().is_some_and(holds)
    }

    /// A loss while about as much waits as ever did: the queue is full.
    pub(super) fn overflowed(&mut self, now: Instant, look: &Look) {
        let held = self.path.rate().unwrap_or(0.0) / self.mtu * look.waited.as_secs_f64();
        self.full = Some((now + FULL_FOR, held));
        let delivered = self.path.rate().unwrap_or(0.0) / self.mtu * look.base.as_secs_f64();
        let left = (delivered / self.window).clamp(LOST, 1.0);
        self.reduce_to(now, look, left);
    }
}
