//! Whose a queue is: Copa's own, or others' who fill it (Arun & Balakrishnan §2.2).

use timeous_core::{Duration, Instant};

use super::super::Acked;
use super::super::queueing::Look;
use super::phases::{Drain, Paused, share};
use super::rival::Rival;
use super::velocity::Velocity;
use super::{Copa, LEAST_AIM, MIN_WINDOW, Mode};

/// So many round trips without a nearly empty queue, and it is others' (§2.2).
const EMPTY_WITHIN: u64 = 5;
/// And so many, if others had filled it just before.
const AGAIN_WITHIN: u64 = 1;
/// After so many it makes sure that the queue is not its own, and then each so many.
const DRAIN_AFTER: u64 = 3;
const DRAIN_EVERY: u64 = 30;
/// When its window has become so many times what it was, it does so after as many as at first.
const GROWN: f64 = 4.0;
/// What it leaves itself meanwhile of what the path holds without a queue.
pub(super) const DRAINED: f64 = 0.75;
/// A queue is nearly empty below this share of the most that waited of late (§2.2).
const NEARLY_EMPTY: f64 = 0.1;
/// After a pause less than this part of a round trip is hardly anything.
const LITTLE: u64 = 8;
/// What it had among others stands for so long when it is not among them.
const RIVAL_FOR: Duration = Duration::from_secs(10);

impl Copa {
    /// Whose the queue is. Says whether the window is to stay as it is.
    pub(super) fn judge(&mut self, now: Instant, look: &Look) -> bool {
        let nearly = look.most.as_secs_f64() * NEARLY_EMPTY;
        let beyond = look.queued.saturating_sub(look.least_packet_time);
        // With a fast link what is left of its own swing, or of what a timer lets go at once, is nobody's queue.
        let emptied = beyond <= LEAST_AIM || beyond.as_secs_f64() <= nearly;
        let without = now.saturating_since(*self.emptied_at.get_or_insert(now));
        let undrained = self.drained_at.map(|at| now.saturating_since(at));
        let was_among = self.rival(now).is_some();
        let within = if was_among { AGAIN_WITHIN } else { EMPTY_WITHIN };
        if emptied {
            (self.emptied_at, self.mode) = (Some(now), Mode::Short);
            // Others who fill a queue lose packets when it is full, and so does who is among them.
            let lost_nothing = self.rival.as_ref().is_some_and(Rival::in_slow_start);
            if !was_among || self.drain.is_some() || lost_nothing {
                // It was its own.
                (self.rival, self.drained_at) = (None, None);
            }
            self.end_drain(true);
        } else if let Some(drain) = self.drain {
            if now < drain.until {
                return true;
            }
            self.end_drain(false);
            (self.drained_at, self.found_with) = (Some(now), self.window);
        } else if undrained.map_or(without > look.srtt * DRAIN_AFTER, |since| self.is_due_to_drain(since, look)) {
            self.begin_drain(now, look);
            return true;
        } else if without > look.srtt * within && self.mode == Mode::Short {
            // Less than one packet of its own that waits may be that packet's own time, on a link that has become slower.
            let waits = look.queued.as_secs_f64() * self.path.rate().unwrap_or(0.0);
            self.join(now, waits > self.mtu);
        }
        false
    }

    /// After so long without, its own packets are to be taken out of the queue again.
    fn is_due_to_drain(&self, since: Duration, look: &Look) -> bool {
        let has_grown = self.mode == Mode::Among && self.window > GROWN * self.found_with;
        since > look.srtt * if has_grown { DRAIN_AFTER } else { DRAIN_EVERY }
    }

    fn begin_drain(&mut self, now: Instant, look: &Look) {
        // Among others the window may have grown while this was measured, and what left since is in the queue.
        let takes = match self.mode {
            Mode::Short => look.standing + look.base,
            Mode::Among => (look.base + look.waited.max(look.queued)) * 2,
        };
        self.drain = Some(Drain { until: now + takes, then: self.window });
        self.window = (self.window * share(look.base, look.standing) * DRAINED).max(MIN_WINDOW.min(self.window));
    }

    /// Nothing of its own was in the queue: where hardly anything waits after that, nobody else fills it. If it was just about to
    /// find that out, it has.
    pub(super) fn look_after_pause(&mut self, now: Instant, look: &Look, paused: Paused) {
        let least = LEAST_AIM + look.packet_time * 2;
        let little = least.max(look.base / LITTLE);
        if let Some(drained) = paused.drained.filter(|_| look.waited <= least) {
            (self.mode, self.rival) = (Mode::Short, None);
            self.window = self.window.min(drained / DRAINED).max(MIN_WINDOW);
        }
        if self.mode == Mode::Short && look.waited <= little {
            (self.emptied_at, self.drained_at) = (Some(now), None);
        }
    }

    /// After a pause others are seen by the first packets: nothing of its own is in the queue.
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

    /// The queue is others', again or for the first time.
    pub(super) fn join(&mut self, now: Instant, is_sure: bool) {
        (self.mode, self.found_with) = (Mode::Among, self.window);
        let (mtu, window) = (self.mtu as u64, self.bytes());
        self.rival.get_or_insert_with(|| Rival::new(now, mtu, window, is_sure));
    }

    /// Its window among others, if it is so or was of late.
    pub(super) fn rival(&mut self, now: Instant) -> Option<&mut Rival> {
        let is_among = self.mode == Mode::Among;
        self.rival.take_if(|rival| !is_among && now.saturating_since(rival.at) > RIVAL_FOR);
        let rival = self.rival.as_mut()?;
        if is_among {
            rival.at = now;
        }
        Some(rival)
    }

    /// Among others the window is the rival's, unless its packets are just being taken out of the queue.
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

    /// The window is what it was; or, if the queue was its own, what the path holds without one.
    pub(super) fn end_drain(&mut self, was_own: bool) {
        if let Some(drain) = self.drain.take() {
            let own = if was_own { self.window / DRAINED } else { drain.then };
            self.window = own.min(drain.then).max(MIN_WINDOW);
            self.pace = Velocity::STILL;
        }
    }
}
