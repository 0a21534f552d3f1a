//! By layer: what cannot play in time is given up from the top layer down (Birkedal et al. §6).

mod base;
mod delivery;

use std::collections::VecDeque;

use timeous_core::{AduMeta, DropReason, Duration, Fate, Instant, LateChoice, PathState, Queue, Rate};

use base::Base;
use delivery::Delivery;

/// The rate of the stream is what left in this time: long enough that single losses do not decide.
const WINDOW: Duration = Duration::from_secs(4);
/// Before so much of it has passed, nothing is concluded.
const LEAST: Duration = Duration::from_secs(1);
/// How often it is reckoned what can play in time. Nothing changes faster.
const INTERVAL: Duration = Duration::from_millis(100);

/// Gives up what is too late and, where what is queued cannot all arrive in time, the top layer first.
///
/// A layer is a sub-stream: the lowest number refines nothing, each other one refines all below it. ADUs are queued in
/// the order of their deadlines and, within one, of their layers. The last deadline of the queue is left alone: nothing
/// behind it would gain by what is given up.
///
/// What is not of the lowest layer waits while too much is under way for that one: what of it has left may have to leave again,
/// and the next of it may come at any time, or at its own if they come regularly.
#[derive(Debug, Default)]
pub struct Layers {
    /// What left, and when.
    left: VecDeque<(Instant, usize)>,
    begin: Option<Instant>,
    next: Instant,
    delivery: Delivery,
    base: Option<Base>,
    holds: bool,
}

impl Layers {
    /// How long a packet that leaves now takes: behind all that is under way, at the rate of the path. Smoothed round trips
    /// remember queues that are gone, and do not know yet of those that grow.
    ///
    /// Nothing is kept in reserve for a loss ahead of it, which delays it by a round trip where order is kept: most packets
    /// meet none, and those that do are of the top layers, since each deadline's lowest layer leaves first.
    fn way(path: &PathState, rate: Rate, len: usize) -> Duration {
        let half = path.min_rtt.unwrap_or(Duration::ZERO) / 2;
        if rate == Rate::ZERO {
            // Nothing is known yet.
            return half;
        }
        // What is acknowledged by now but was not heard of is counted, and with it the way back.
        let way = rate.time_for(path.outstanding + len as u64).saturating_sub(half).max(half);
        // A rate that is too low makes it no longer than round trips are, as they grow.
        path.srtt.map_or(way, |srtt| way.min((srtt + path.rttvar * 2).saturating_sub(half)))
    }

    /// The rate at which ADUs left of late.
    fn rate(&self, now: Instant) -> Option<Rate> {
        let since = now.saturating_since(self.begin?).min(WINDOW);
        let bytes: usize = self.left.iter().map(|(_, len)| len).sum();
        (since >= LEAST).then(|| Rate::from_bytes_in(bytes as u64, since))
    }

    /// What is oldest leaves now, or waits.
    fn leave(&mut self, now: Instant, path: &PathState, rate: Rate, queue: &dyn Queue) {
        self.begin.get_or_insert(now);
        let mut waiting = (0..queue.len()).filter_map(|index| queue.get(index));
        let first = waiting.next();
        self.holds = first.is_some_and(|(meta, len)| {
            let base = self.base.as_ref().filter(|base| base.layer != meta.substream.0);
            base.is_some_and(|base| !base.allows(now, path, rate, len as u64))
        });
        let leaves = first.filter(|_| !self.holds);
        if self.holds || waiting.next().is_some() {
            self.delivery.leave(now, path, leaves.map_or(0, |(_, len)| len));
        }
        if let Some((meta, len)) = leaves {
            self.left.push_back((now, len));
            if let Some(base) = self.base.as_mut().filter(|base| base.layer == meta.substream.0) {
                base.leave(meta);
            }
        }
        while self.left.front().is_some_and(|(at, _)| *at + WINDOW < now) {
            self.left.pop_front();
        }
    }

    /// Gives up, deadline by deadline, what the stream has no time for.
    fn fit(&self, now: Instant, way: Duration, rate: Rate, queue: &mut dyn Queue) {
        let adu = |queue: &dyn Queue, index: usize| {
            queue.get(index).map(|(meta, len)| (meta.deadline.unwrap_or(Instant::FAR_FUTURE), meta.substream, len))
        };
        let mut before = Vec::new();
        let mut bytes = 0;
        let mut index = 0;
        while index < queue.len() {
            let Some((deadline, ..)) = adu(queue, index) else {
                index += 1;
                continue;
            };
            while let Some((_, layer, len)) = adu(queue, index).filter(|(same, ..)| *same == deadline) {
                before.push((layer, index, len));
                bytes += len as u64;
                index += 1;
                // Over what was given up.
                while index < queue.len() && queue.get(index).is_none() {
                    index += 1;
                }
            }
            if index >= queue.len() {
                return;
            }
            let room = rate.bytes_in(deadline.saturating_since(now + way));
            before.sort_unstable_by_key(|&(layer, index, _)| (layer, index));
            while bytes > room
                && let Some((_, index, len)) = before.pop()
            {
                queue.drop_at(index, DropReason::Policy);
                bytes -= len as u64;
            }
        }
    }
}

impl LateChoice for Layers {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        self.delivery.look(now, path);
        Base::look(&mut self.base, queue);
        let rate = self.delivery.rate(path);
        let first = (0..queue.len()).find_map(|index| queue.get(index)).map_or(0, |(_, len)| len);
        let way = Self::way(path, rate, first);
        for index in 0..queue.len() {
            let Some((meta, _)) = queue.get(index) else { continue };
            if meta.is_expired(now) {
                queue.drop_at(index, DropReason::Expired);
            } else if meta.is_expired(now + way) {
                queue.drop_at(index, DropReason::TooLate);
            }
        }
        if now >= self.next
            && let Some(of_late) = self.rate(now)
        {
            self.next = now + INTERVAL;
            self.fit(now, Self::way(path, rate, 0), of_late, queue);
        }
        self.leave(now, path, rate, queue);
    }

    fn holds(&self) -> bool {
        self.holds
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !meta.is_expired(now + Self::way(path, self.delivery.rate(path), 0))
    }

    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        if let (Some(base), Fate::Acked | Fate::Lost) = (&mut self.base, fate)
            && base.layer == meta.substream.0
        {
            base.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::SubStream;

    use super::*;
    use crate::testing::{TestQueue, at, path};

    /// Four layers of 100 bytes for each deadline.
    fn queue(deadlines: &[u64]) -> TestQueue {
        let mut queue = TestQueue::default();
        for &deadline in deadlines {
            for layer in 0..4 {
                queue.push(|meta| {
                    meta.deadline = Some(at(deadline));
                    meta.substream = SubStream(layer);
                });
            }
        }
        queue
    }

    /// A choice that has seen 200 bytes a second leave.
    fn seasoned() -> Layers {
        let mut layers = Layers::default();
        for n in 0..8 {
            layers.choose(at(500 * n), &path(), &mut queue(&[100_000]));
        }
        layers
    }

    #[test]
    fn what_cannot_play_in_time_goes_from_the_top_layer_down_but_not_of_the_last_deadline() {
        let mut queue = queue(&[5_000, 6_000, 7_000]);
        seasoned().choose(at(4_000), &path(), &mut queue);
        assert_eq!(queue.left(), [0, 1, 4, 5, 8, 9, 10, 11], "two layers of four fit into each second");
    }

    #[test]
    fn what_fits_stays_and_what_is_too_late_goes() {
        let mut queue = queue(&[3_900, 8_000, 12_000]);
        seasoned().choose(at(4_000), &path(), &mut queue);
        assert_eq!(queue.left(), (4..12).collect::<Vec<_>>());
    }

    #[test]
    fn a_queue_that_is_gone_delays_nothing() {
        let (srtt, min_rtt) = (Some(Duration::from_secs(2)), Some(Duration::from_millis(20)));
        let path = PathState { srtt, min_rtt, rate: Rate::from_kbps(80), ..path() };
        for (outstanding, left) in [(0, 4), (20_000, 0)] {
            let mut queue = queue(&[1_000]);
            Layers::default().choose(at(0), &PathState { outstanding, ..path }, &mut queue);
            assert_eq!(queue.left().len(), left, "{outstanding} bytes are under way");
        }
    }

    #[test]
    fn no_round_trip_is_kept_in_reserve_for_a_loss() {
        let srtt = Some(Duration::from_millis(80));
        let path = PathState { srtt, min_rtt: srtt, rate: Rate::from_kbps(80), outstanding: 700, ..path() };
        for (deadline, left) in [(41, 4), (39, 0)] {
            let mut queue = queue(&[deadline]);
            Layers::default().choose(at(0), &path, &mut queue);
            assert_eq!(queue.left().len(), left, "it takes forty milliseconds there");
        }
    }
}
