//! Copa's response to losses: they are congestion if the queue is full or the loss rate is high.

use timeous_core::{Duration, Instant};

use super::super::queueing::Look;
use super::{Copa, LOSS_FACTOR, Mode};

/// Share of the maximum recent queueing delay from which the queue counts as full. Chosen by us. A higher value ignores
/// more losses; a lower one takes random losses for congestion.
const FULL_QUEUE_RATIO: f64 = 0.75;
/// Time for which the target queue fits a queue that overflowed. Chosen by us. A higher value keeps a low target where
/// the queue has become longer; a lower one overflows more often.
pub(super) const OVERFLOW_MEMORY: Duration = Duration::from_secs(10);
/// Loss rate above which losses are congestion, whatever the queue. Chosen by us: links with 5 % of bursty loss stay
/// below it. A higher value sends longer into a policer; RFC 8085 §3.1 asks for a response to persistent loss.
const MAX_LOSS_RATE: f64 = 0.1;

impl Copa {
    /// Takes the loss rate of the last block of packets, and reduces the window if it is too high.
    pub(super) fn mind_losses(&mut self, now: Instant, look: &Look) {
        let Some(lost) = self.path.take_loss_share() else { return };
        self.is_worn = lost > MAX_LOSS_RATE;
        if self.is_worn && self.mode == Mode::Short {
            self.reduce_to(now, look, (1.0 - lost).clamp(0.5, LOSS_FACTOR));
        }
    }

    /// Whether about as much waits as the recent maximum. One packet always waits where acknowledgements come for two.
    pub(super) fn is_full(&self) -> bool {
        let holds = |look: Look| {
            let is_most = look.waited.as_secs_f64() >= FULL_QUEUE_RATIO * look.peak.as_secs_f64();
            is_most && look.waited > look.packet_time * 3 / 2 && !look.waited.is_zero()
        };
        self.path.look().is_some_and(holds)
    }

    /// Responds to a loss with a full queue.
    pub(super) fn overflowed(&mut self, now: Instant, look: &Look) {
        let held = self.path.rate().unwrap_or(0.0) / self.mtu * look.waited.as_secs_f64();
        self.full = Some((now + OVERFLOW_MEMORY, held));
        let delivered = self.path.rate().unwrap_or(0.0) / self.mtu * look.base.as_secs_f64();
        let left = (delivered / self.window).clamp(LOSS_FACTOR, 1.0);
        self.reduce_to(now, look, left);
    }
}
