//! Competition with flows that fill the queue: detection (Arun & Balakrishnan §2.2), and CUBIC's
//! window with an allowance for bursts.
//!
//! A queue longer than its target for five round trips, although the window was reduced to what
//! fits, is filled by others. Each time that the window has grown to four times in competition, it
//! drains its own packets: if the queue is empty then, it was its own.

use timeous_core::{Duration, Instant};

use super::super::queueing::Look;
use super::super::{Acked, Congestion, TimedOut};
use super::rival::Rival;

/// Round trips without a nearly empty queue after which cross traffic is assumed (Arun &
/// Balakrishnan §2.2).
const CROSS_TRAFFIC_ROUNDS: u64 = 5;
/// Share of the maximum queueing delay of four round trips below which the queue is nearly empty
/// (Arun & Balakrishnan §2.2).
const NEARLY_EMPTY_RATIO: f64 = 0.1;
/// Growth of the competitive window from one drain to the next, and the window during one, as a
/// share of the bandwidth-delay product (docs/decisions/live-controller.md). More drains, and deeper
/// ones, give up more of the share.
const DRAIN_GROWTH: f64 = 4.0;
const DRAIN_FACTOR: f64 = 0.75;
/// Time for which the competitive window is kept after competition. Chosen by us: competing flows
/// empty the queue now and then. A lower value begins competition anew.
const COMPETITION_MEMORY: Duration = Duration::from_secs(10);

/// The controller's view of the path at an acknowledgement.
pub(super) struct Found<'a> {
    pub(super) look: &'a Look,
    /// Standing queueing delay beyond a packet's own time.
    pub(super) beyond: Duration,
    pub(super) target: Duration,
    pub(super) window: f64,
    pub(super) mtu: f64,
}

/// State of competition.
#[derive(Clone, Debug, Default)]
pub(super) struct Beside {
    /// When the queue was last nearly empty, and the window then.
    emptied: Option<(Instant, f64)>,
    rival: Option<Rival>,
    competes: bool,
    /// Window at the beginning of competition or after its last drain.
    found_with: f64,
    /// End of the current drain.
    drain: Option<Instant>,
}

impl Beside {
    /// Whether the window is CUBIC's.
    pub(super) fn competes(&self) -> bool {
        self.competes
    }

    /// Whether others have filled the queue of late.
    pub(super) fn is_known(&self) -> bool {
        self.rival.is_some()
    }

    /// Takes an acknowledgement; returns the window in competition.
    pub(super) fn acked(&mut self, now: Instant, acked: &Acked, starts: bool, found: &Found<'_>) -> Option<f64> {
        self.judge(now, starts, found);
        let (competes, holds) = (self.competes, self.drain.is_none());
        self.rival.take_if(|rival| !competes && now.saturating_since(rival.at) > COMPETITION_MEMORY);
        let rival = self.rival.as_mut()?;
        rival.acked(now, acked, competes && holds);
        if !competes {
            return None;
        }
        rival.at = now;
        let Found { look, window, .. } = found;
        match self.drain {
            Some(until) if now < until => return Some(*window),
            Some(_) => (self.drain, self.found_with) = (None, rival.window() as f64),
            None if *window > self.found_with * DRAIN_GROWTH => {
                self.drain = Some(now + (look.base + look.waited.max(look.queued)) * 2);
                return Some(window * look.base.as_secs_f64() / look.standing.as_secs_f64() * DRAIN_FACTOR);
            }
            None => {}
        }
        Some(rival.window() as f64)
    }

    /// Decides whether others fill the queue.
    fn judge(&mut self, now: Instant, starts: bool, found: &Found<'_>) {
        let Found { look, beyond, target, window, mtu } = *found;
        let (since, before) = *self.emptied.get_or_insert((now, window));
        let is_empty = beyond <= target || beyond.as_secs_f64() <= look.most.as_secs_f64() * NEARLY_EMPTY_RATIO;
        if is_empty || starts {
            let was_own = self.drain.is_some();
            self.rival.take_if(|_| self.competes && was_own);
            self.emptied = Some((now, if self.competes { before } else { window }));
            (self.competes, self.drain) = (false, None);
        } else if !self.competes {
            let rounds = if self.is_known() { 0 } else { CROSS_TRAFFIC_ROUNDS };
            if now.saturating_since(since) > look.srtt * rounds {
                let rival = self.rival.get_or_insert_with(|| Rival::new(now, mtu as u64, before as u64));
                (self.competes, self.found_with) = (true, rival.window() as f64);
            }
        }
    }

    pub(super) fn left_unused(&mut self, now: Instant) {
        if let Some(rival) = &mut self.rival {
            rival.left_unused(now);
        }
    }

    /// Takes a congestion event; returns whether it was answered by the competitive window.
    pub(super) fn congested(&mut self, now: Instant, congestion: Congestion) -> bool {
        if let Some(rival) = &mut self.rival {
            rival.congested(now, congestion, self.competes);
        }
        self.competes
    }

    pub(super) fn timed_out(&mut self, now: Instant, timed_out: TimedOut) {
        self.drain = None;
        if let Some(rival) = &mut self.rival {
            rival.timed_out(now, timed_out);
        }
    }

    pub(super) fn timed_out_for_nothing(&mut self) {
        if let Some(rival) = &mut self.rival {
            rival.timed_out_for_nothing();
        }
    }

    pub(super) fn idle(&mut self, now: Instant, timeouts: u32) {
        (self.emptied, self.drain) = (None, None);
        if let Some(rival) = &mut self.rival {
            rival.idle(now, timeouts);
        }
    }
}

#[cfg(test)]
impl Beside {
    /// Competition with nobody, with a window of this many bytes.
    pub(super) fn mistaken(window: u64, mtu: u64) -> Self {
        let rival = Some(Rival::new(Instant::ZERO, mtu, window));
        Self { rival, competes: true, found_with: window as f64, ..Self::default() }
    }
}
