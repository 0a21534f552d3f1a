//! By layer: what cannot play in time is given up from the top layer down (Birkedal et al. §6).

use std::collections::VecDeque;

use timeous_core::{DropReason, Duration, Instant, LateChoice, PathState, Queue, Rate};

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
#[derive(Debug, Default)]
pub struct Layers {
    /// What left, and when.
    left: VecDeque<(Instant, usize)>,
    begin: Option<Instant>,
    next: Instant,
}

impl Layers {
    /// How long a packet that leaves now may take. The smoothed round trip remembers queues that are gone, and while nothing
    /// is sent it does not forget them: it takes no longer than what is under way does at the path's rate.
    ///
    /// Nothing is kept in reserve for a loss ahead of it, which delays it by a round trip where order is kept: most packets
    /// meet none, and those that do are of the top layers, since each deadline's lowest layer leaves first.
    fn way(path: &PathState) -> Duration {
        let least = path.min_rtt.unwrap_or(Duration::ZERO);
        path.one_way().min(least / 2 + path.rate.time_for(path.outstanding))
    }

    /// The rate at which ADUs left of late.
    fn rate(&self, now: Instant) -> Option<Rate> {
        let since = now.saturating_since(self.begin?).min(WINDOW);
        let bytes: usize = self.left.iter().map(|(_, len)| len).sum();
        (since >= LEAST).then(|| Rate::from_bytes_in(bytes as u64, since))
    }

    /// What is oldest leaves now.
    fn note(&mut self, now: Instant, queue: &dyn Queue) {
        self.begin.get_or_insert(now);
        if let Some((_, len)) = (0..queue.len()).find_map(|index| queue.get(index)) {
            self.left.push_back((now, len));
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
        let way = Self::way(path);
        for index in 0..queue.len() {
            let Some((meta, _)) = queue.get(index) else { continue };
            if meta.is_expired(now) {
                queue.drop_at(index, DropReason::Expired);
            } else if meta.is_expired(now + way) {
                queue.drop_at(index, DropReason::TooLate);
            }
        }
        if now >= self.next
            && let Some(rate) = self.rate(now)
        {
            self.next = now + INTERVAL;
            self.fit(now, way, rate, queue);
        }
        self.note(now, queue);
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
        let path = PathState { srtt, min_rtt: srtt, rate: Rate::from_kbps(80), outstanding: 800, ..path() };
        for (deadline, left) in [(41, 4), (39, 0)] {
            let mut queue = queue(&[deadline]);
            Layers::default().choose(at(0), &path, &mut queue);
            assert_eq!(queue.left().len(), left, "it takes forty milliseconds there");
        }
    }
}
