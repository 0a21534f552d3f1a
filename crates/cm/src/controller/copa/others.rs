//! Copa's mode switching: detects whether the queue is its own or filled by cross traffic (Arun & Balakrishnan §2.2).

use timeous_core::{Duration, Instant};

use super::super::Acked;
use super::super::queueing::Look;
use super::phases::{Drain, Paused, share};
use super::rival::Rival;
use super::velocity::Velocity;
use super::{Copa, MIN_TARGET_DELAY, MIN_WINDOW, Mode};

/// Round trips without a nearly empty queue after which cross traffic is assumed (Arun & Balakrishnan §2.2).
const CROSS_TRAFFIC_ROUNDS: u64 = 5;
/// Round trips without a nearly empty queue after which cross traffic is assumed again within `COMPETITION_MEMORY`.
/// Chosen by us: competing flows empty the queue now and then. A higher value loses more of the share to them.
const CROSS_TRAFFIC_AGAIN_ROUNDS: u64 = 1;
/// Round trips without a nearly empty queue before Copa first drains its own packets. Chosen by us: below
/// `CROSS_TRAFFIC_ROUNDS`. A lower value drains where the queue would have emptied by itself.
const FIRST_DRAIN_ROUNDS: u64 = 3;
/// Round trips between further drains. Chosen by us. A higher value takes its own queue longer for cross traffic; a
/// lower one gives up more of the share in competition.
const DRAIN_INTERVAL_ROUNDS: u64 = 30;
/// Growth factor of the window in competitive mode that brings the next drain forward to `FIRST_DRAIN_ROUNDS`
/// (docs/decisions/own-queue-or-cross-traffic.md).
const REDRAIN_GROWTH: f64 = 4.0;
/// Window during a drain, as a share of the bandwidth-delay product. Chosen by us. A lower value empties the queue more
/// surely and leaves the link unused for longer.
pub(super) const DRAIN_FACTOR: f64 = 0.75;
/// Share of the maximum queueing delay of four round trips below which the queue is nearly empty (Arun & Balakrishnan
/// §2.2).
const NEARLY_EMPTY_RATIO: f64 = 0.1;
/// Divisor of the base RTT: queueing delay after a pause up to which the queue counts as empty. Chosen by us for the
/// rule of docs/decisions/own-queue-or-cross-traffic.md. A lower value takes queues of cross traffic for none.
const EMPTY_DELAY_DIVISOR: u64 = 8;
/// Time for which the competitive window is kept after competitive mode. Chosen by us: competing flows empty the queue
/// now and then. A higher value competes again with an old window; a lower one starts competition anew.
const COMPETITION_MEMORY: Duration = Duration::from_secs(10);

impl Copa {
    /// Updates the mode. Returns whether the window must stay as it is, because of a drain.
    pub(super) fn judge(&mut self, now: Instant, look: &Look) -> bool {
        let nearly = look.most.as_secs_f64() * NEARLY_EMPTY_RATIO;
        let beyond = look.queued.saturating_sub(look.least_packet_time);
        // On a fast link Copa's own oscillation and timer bursts leave delays below `MIN_TARGET_DELAY`.
        let emptied = beyond <= MIN_TARGET_DELAY || beyond.as_secs_f64() <= nearly;
        let without = now.saturating_since(*self.emptied_at.get_or_insert(now));
        let undrained = self.drained_at.map(|at| now.saturating_since(at));
        let was_among = self.rival(now).is_some();
        let within = if was_among { CROSS_TRAFFIC_AGAIN_ROUNDS } else { CROSS_TRAFFIC_ROUNDS };
        if emptied {
            (self.emptied_at, self.mode) = (Some(now), Mode::Short);
            // Flows that fill a queue lose packets once it is full, and so would this one among them.
            let lost_nothing = self.rival.as_ref().is_some_and(Rival::in_slow_start);
            if !was_among || self.drain.is_some() || lost_nothing {
                // The queue was its own.
                (self.rival, self.drained_at) = (None, None);
            }
            self.end_drain(true);
        } else if let Some(drain) = self.drain {
            if now < drain.until {
                return true;
            }
            self.end_drain(false);
            (self.drained_at, self.found_with) = (Some(now), self.window);
        } else if undrained.map_or(without > look.srtt * FIRST_DRAIN_ROUNDS, |since| self.is_due_to_drain(since, look))
        {
            self.begin_drain(now, look);
            return true;
        } else if without > look.srtt * within && self.mode == Mode::Short {
            // Less than one waiting packet may be just its transmission time, on a link that has become slower.
            let waits = look.queued.as_secs_f64() * self.path.rate().unwrap_or(0.0);
            self.join(now, waits > self.mtu);
        }
        false
    }

    /// Whether the next drain is due, `since` after the last one.
    fn is_due_to_drain(&self, since: Duration, look: &Look) -> bool {
        let has_grown = self.mode == Mode::Among && self.window > REDRAIN_GROWTH * self.found_with;
        since > look.srtt * if has_grown { FIRST_DRAIN_ROUNDS } else { DRAIN_INTERVAL_ROUNDS }
    }

    fn begin_drain(&mut self, now: Instant, look: &Look) {
        // In competitive mode the window may have grown during the measurement, and packets sent since are in the queue.
        let takes = match self.mode {
            Mode::Short => look.standing + look.base,
            Mode::Among => (look.base + look.waited.max(look.queued)) * 2,
        };
        self.drain = Some(Drain { until: now + takes, then: self.window });
        self.window = (self.window * share(look.base, look.standing) * DRAIN_FACTOR).max(MIN_WINDOW.min(self.window));
    }

    /// Evaluates the first RTT after a pause, when no own packets were queued: a short queueing delay means no cross
    /// traffic, and completes a drain that the pause interrupted.
    pub(super) fn look_after_pause(&mut self, now: Instant, look: &Look, paused: Paused) {
        let least = MIN_TARGET_DELAY + look.packet_time * 2;
        let little = least.max(look.base / EMPTY_DELAY_DIVISOR);
        if let Some(drained) = paused.drained.filter(|_| look.waited <= least) {
            (self.mode, self.rival) = (Mode::Short, None);
            self.window = self.window.min(drained / DRAIN_FACTOR).max(MIN_WINDOW);
        }
        if self.mode == Mode::Short && look.waited <= little {
            (self.emptied_at, self.drained_at) = (Some(now), None);
        }
    }

    /// Looks for cross traffic in the first flight after a pause, when no own packets are in the queue.
    pub(super) fn look_for_others(&mut self, now: Instant, acked: &Acked, look: &Look) {
        let packets = acked.bytes as f64 / self.mtu;
        if acked.rtt.is_some()
            && self.flight.met_others(now, packets, look.waited, look.base)
            && self.mode == Mode::Short
        {
            (self.start, self.emptied_at, self.drained_at) = (None, Some(now), Some(now));
            self.join(now, true);
        }
    }

    /// Enters competitive mode.
    pub(super) fn join(&mut self, now: Instant, is_sure: bool) {
        (self.mode, self.found_with) = (Mode::Among, self.window);
        let (mtu, window) = (self.mtu as u64, self.bytes());
        self.rival.get_or_insert_with(|| Rival::new(now, mtu, window, is_sure));
    }

    /// The competitive window, in competitive mode and for `COMPETITION_MEMORY` after it.
    pub(super) fn rival(&mut self, now: Instant) -> Option<&mut Rival> {
        let is_among = self.mode == Mode::Among;
        self.rival.take_if(|rival| !is_among && now.saturating_since(rival.at) > COMPETITION_MEMORY);
        let rival = self.rival.as_mut()?;
        if is_among {
            rival.at = now;
        }
        Some(rival)
    }

    /// Takes the competitive window in competitive mode; during a drain, for the time after it.
    pub(super) fn follow_rival(&mut self) {
        let Some(rival) = self.rival.as_ref().filter(|_| self.mode == Mode::Among) else { return };
        let window = (rival.window() as f64 / self.mtu).max(1.0);
        match &mut self.drain {
            Some(drain) => drain.then = window,
            None => self.window = window,
        }
        if !rival.in_slow_start() {
            self.start = None;
        }
    }

    /// Ends a drain: restores the window, or the bandwidth-delay product if the queue was Copa's own.
    pub(super) fn end_drain(&mut self, was_own: bool) {
        if let Some(drain) = self.drain.take() {
            let own = if was_own { self.window / DRAIN_FACTOR } else { drain.then };
            self.window = own.min(drain.then).max(MIN_WINDOW);
            self.pace = Velocity::INITIAL;
        }
    }
}
