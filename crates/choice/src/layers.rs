//! Layer policy: drops packets that cannot be played in time, from the top layer down (Birkedal et al. §6).

mod base;
mod delivery;

use std::collections::VecDeque;

use timeous_core::{AduMeta, DropReason, Duration, Fate, Instant, LateChoice, PathState, Queue, Rate};

use base::Base;
use delivery::Delivery;

/// Window of the rate measurement, in time. Chosen by us (docs/design/late-choice.md): a higher value reacts later;
/// with a lower one single losses matter.
const RATE_WINDOW: Duration = Duration::from_secs(4);
/// Minimum measurement time before layers are dropped. Chosen by us: a higher value keeps layers longer that the path
/// cannot carry; a lower one drops by an uncertain rate.
const MIN_MEASURED: Duration = Duration::from_secs(1);
/// Interval of the schedulability check. Chosen by us: a higher value costs less time and drops layers later.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Drops late packets and, if the queue cannot arrive in time, the top layers first.
///
/// A layer is a sub-stream: the lowest number is the base layer, each other one refines all below. ADUs are queued in
/// the order of their deadlines, then of layers. The last deadline in the queue is left alone, since drops there help
/// no other.
///
/// Packets above the base layer wait while too much is in flight for it: base packets may need retransmission, and new
/// ones may come at any time, or at their regular time if there is one.
#[derive(Debug, Default)]
pub struct Layers {
    /// Sent packets: time and length.
    left: VecDeque<(Instant, usize)>,
    begin: Option<Instant>,
    next: Instant,
    delivery: Delivery,
    base: Option<Base>,
    holds: bool,
    /// Whether deadlines count from the first packet, and its delay, by which they are later.
    counts_from_first: bool,
    first_way: Duration,
}

impl Layers {
    /// Deadlines count from when the first packet left, as at a receiver whose playout begins a fixed time after the
    /// first packet came ("with the first packet as the time reference", §6): each is later by that packet's delay over
    /// the idle path, as the policy measures it.
    #[must_use]
    pub fn counting_from_first() -> Self {
        Self { counts_from_first: true, ..Self::default() }
    }

    /// Time by which an ADU has to arrive.
    fn due(&self, meta: &AduMeta) -> Option<Instant> {
        meta.deadline.map(|deadline| deadline + self.first_way)
    }

    fn is_late(&self, meta: &AduMeta, at: Instant) -> bool {
        self.due(meta).is_some_and(|due| due < at)
    }

    /// Delay of a packet sent now, behind all bytes in flight at the path's rate. The smoothed RTT still includes
    /// queues that are gone, and lags behind growing ones.
    ///
    /// There is no reserve for a loss before it, which delays it by a round trip with in-order delivery: most packets
    /// meet none, and mostly those of top layers do, as each deadline's base layer is sent first.
    fn way(path: &PathState, rate: Rate, len: usize) -> Duration {
        let half = path.min_rtt.unwrap_or(Duration::ZERO) / 2;
        if rate == Rate::ZERO {
            // The path's rate is not known yet.
            return half;
        }
        // Bytes already acknowledged on the way back are included, and so is the return path.
        let way = rate.time_for(path.outstanding + len as u64).saturating_sub(half).max(half);
        // If the rate estimate is too low, the delay is limited by the RTT and its growth.
        path.srtt.map_or(way, |srtt| way.min((srtt + path.rttvar * 2).saturating_sub(half)))
    }

    /// Recent rate of sent ADUs.
    fn rate(&self, now: Instant) -> Option<Rate> {
        let since = now.saturating_since(self.begin?).min(RATE_WINDOW);
        let bytes: usize = self.left.iter().map(|(_, len)| len).sum();
        (since >= MIN_MEASURED).then(|| Rate::from_bytes_in(bytes as u64, since))
    }

    /// Notes that the oldest packet is sent, or held.
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
                base.leave(meta.deadline.map(|deadline| deadline + self.first_way));
            }
        }
        while self.left.front().is_some_and(|(at, _)| *at + RATE_WINDOW < now) {
            self.left.pop_front();
        }
    }

    /// Drops, deadline by deadline, packets for which the rate does not suffice.
    fn fit(&self, now: Instant, way: Duration, rate: Rate, queue: &mut dyn Queue) {
        let adu = |queue: &dyn Queue, index: usize| {
            queue.get(index).map(|(meta, len)| (self.due(meta).unwrap_or(Instant::FAR_FUTURE), meta.substream, len))
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
                // Skip dropped entries.
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
        let rate = self.delivery.rate(path);
        let first = (0..queue.len()).find_map(|index| queue.get(index)).map_or(0, |(_, len)| len);
        if self.counts_from_first {
            let half = path.min_rtt.unwrap_or_default() / 2;
            self.first_way = if rate == Rate::ZERO { half } else { half + rate.time_for(first as u64) };
        }
        Base::look(&mut self.base, queue, self.first_way);
        let way = Self::way(path, rate, first);
        for index in 0..queue.len() {
            let Some((meta, _)) = queue.get(index) else { continue };
            if self.is_late(meta, now) {
                queue.drop_at(index, DropReason::Expired);
            } else if self.is_late(meta, now + way) {
                queue.drop_at(index, DropReason::TooLate);
            }
        }
        if now >= self.next
            && let Some(of_late) = self.rate(now)
        {
            self.next = now + CHECK_INTERVAL;
            self.fit(now, Self::way(path, rate, 0), of_late, queue);
        }
        self.leave(now, path, rate, queue);
    }

    fn holds(&self) -> bool {
        self.holds
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !self.is_late(meta, now + Self::way(path, self.delivery.rate(path), 0))
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

    /// A policy that has measured a rate of 200 bytes per second.
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
    fn deadlines_count_from_the_first_packet_where_asked() {
        let (srtt, min_rtt) = (Some(Duration::from_millis(200)), Some(Duration::from_millis(80)));
        let path = PathState { srtt, min_rtt, rate: Rate::from_kbps(80), outstanding: 1_300, ..path() };
        // It takes 100 ms there, and the first one of 100 bytes took 50.
        for (deadline, absolute, relative) in [(101, 4, 4), (99, 0, 4), (51, 0, 4), (49, 0, 0)] {
            for (mut layers, left) in [(Layers::default(), absolute), (Layers::counting_from_first(), relative)] {
                let mut queue = queue(&[deadline]);
                layers.choose(at(0), &path, &mut queue);
                assert_eq!(queue.left().len(), left, "{deadline} ms: {layers:?}");
            }
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
