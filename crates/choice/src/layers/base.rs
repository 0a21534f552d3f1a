//! State of the base layer: bytes per deadline, time of the next one, and packets without a known fate.

use timeous_core::{AduMeta, Duration, Instant, PathState, Queue, Rate};

/// Latest time until a waiting transport asks again, before the first RTT sample. Chosen by us: a higher value may
/// leave the path idle.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Packets in flight that are always allowed beyond the path's capacity: enough to detect a loss of the first by three
/// later ones (RFC 4341 §5). A higher value makes the path's queue longer.
const MIN_IN_FLIGHT: u64 = 3;

/// Base layer, without which no other layer is useful.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) layer: u8,
    /// Newest deadline, enqueue time of its ADUs, and their lifetime.
    deadline: Instant,
    made: Instant,
    life: Duration,
    /// Maximum base-layer bytes per deadline.
    bytes: u64,
    /// Minimum interval between deadlines, if two were seen.
    every: Option<Duration>,
    /// Sent ADUs without a known fate, and the last deadline of them.
    open: u32,
    until: Instant,
}

impl Base {
    /// Updates the state from the queue, whose deadlines are later by `first_way`.
    pub(super) fn look(this: &mut Option<Self>, queue: &dyn Queue, first_way: Duration) {
        let mut found: Option<(AduMeta, u64)> = None;
        for (meta, len) in (0..queue.len()).filter_map(|index| queue.get(index)) {
            let Some(deadline) = meta.deadline else { continue };
            let known = found.as_ref().map(|(first, _)| first.substream.0).or(this.as_ref().map(|base| base.layer));
            match &mut found {
                _ if known.is_some_and(|layer| meta.substream.0 > layer) => {}
                // The newest deadline predicts the next one.
                Some((first, bytes)) if first.substream == meta.substream && first.deadline == Some(deadline) => {
                    *bytes += len as u64;
                }
                found => *found = Some((*meta, len as u64)),
            }
        }
        if let Some((meta, bytes)) = found {
            let deadline = meta.deadline.map(|deadline| deadline + first_way);
            Self::take(this, &AduMeta { deadline, ..meta }, bytes);
        }
    }

    fn take(this: &mut Option<Self>, meta: &AduMeta, bytes: u64) {
        let Some(deadline) = meta.deadline else { return };
        let base = match this {
            Some(base) if base.layer == meta.substream.0 => base,
            _ => this.insert(Self {
                layer: meta.substream.0,
                deadline,
                made: meta.enqueued,
                life: Duration::ZERO,
                bytes: 0,
                every: None,
                open: 0,
                until: deadline,
            }),
        };
        if deadline > base.deadline {
            let step = deadline - base.deadline;
            base.every = Some(base.every.map_or(step, |every| every.min(step)));
        }
        (base.deadline, base.made) = (deadline, meta.enqueued);
        base.life = deadline.saturating_since(meta.enqueued);
        base.bytes = base.bytes.max(bytes);
    }

    /// Notes a sent base-layer packet.
    pub(super) fn leave(&mut self, deadline: Option<Instant>) {
        self.open += 1;
        self.until = deadline.unwrap_or(self.until);
    }

    /// Notes the fate of a sent base-layer packet.
    pub(super) fn settle(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Whether a packet of another layer may be sent now: open base packets could still be retransmitted in time, and
    /// so could the next ones.
    pub(super) fn allows(&self, now: Instant, path: &PathState, rate: Rate, len: u64) -> bool {
        let trip = path.min_rtt.unwrap_or_default();
        // The path must never run idle.
        if rate == Rate::ZERO || path.outstanding <= rate.bytes_in(trip + POLL_INTERVAL) + MIN_IN_FLIGHT * len {
            return true;
        }
        let under_way = path.outstanding + len;
        // The loss is detected after a round trip behind all that, and the retransmission waits as long.
        let repair = rate.time_for(under_way).max(trip) * 2;
        if self.open > 0 && now <= self.until && now + repair > self.until + trip / 2 {
            return false;
        }
        let next = self.every.map_or(now, |every| (self.made + every).max(now));
        let ahead = under_way.saturating_sub(rate.bytes_in(next - now));
        let repair = rate.time_for(ahead).max(trip);
        rate.time_for(ahead + self.bytes) + repair + trip / 2 <= self.life
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::SubStream;

    use super::*;
    use crate::testing::{TestQueue, at};

    /// Base layer of 1000 bytes per second with a lifetime of a second.
    fn base(seconds: u64) -> Base {
        let mut base = None;
        for second in 0..seconds {
            let mut queue = TestQueue::default();
            for n in 0..20 {
                queue.push(|meta| {
                    meta.enqueued = at(1_000 * second);
                    meta.deadline = Some(at(1_000 * second + 1_000));
                    meta.substream = SubStream(n / 10);
                });
            }
            Base::look(&mut base, &queue, Duration::ZERO);
        }
        base.expect("it was queued")
    }

    fn path(outstanding: u64) -> PathState {
        PathState { outstanding, min_rtt: Some(Duration::from_millis(40)), ..PathState::default() }
    }

    const RATE: Rate = Rate::from_kbps(16);

    #[test]
    fn it_is_found_in_the_queue_however_much_of_it_has_left() {
        let mut base = Some(base(2));
        let mut queue = TestQueue::default();
        queue.push(|meta| {
            meta.enqueued = at(1_000);
            meta.deadline = Some(at(2_000));
        });
        Base::look(&mut base, &queue, Duration::ZERO);
        let base = base.unwrap();
        assert_eq!((base.layer, base.bytes, base.every), (0, 1_000, Some(Duration::from_secs(1))));
        assert_eq!((base.made, base.life), (at(1_000), Duration::from_secs(1)));
    }

    #[test]
    fn what_may_come_at_any_time_finds_room_for_itself_and_a_repair() {
        // At 2000 bytes per second the layer takes half a second.
        let base = base(1);
        for (outstanding, allowed) in [(0, true), (380, true), (800, false), (3_000, false)] {
            assert_eq!(base.allows(at(100), &path(outstanding), RATE, 100), allowed, "{outstanding}");
        }
    }

    #[test]
    fn what_comes_at_a_known_time_takes_nothing_before() {
        let base = base(2);
        // One second's worth has left when the next is handed over; two seconds' worth has not.
        for (now, outstanding, allowed) in [(1_010, 1_900, true), (1_010, 3_900, false), (1_900, 1_900, false)] {
            assert_eq!(base.allows(at(now), &path(outstanding), RATE, 100), allowed, "{now}: {outstanding}");
        }
    }

    #[test]
    fn what_has_left_can_be_sent_again_in_time() {
        let mut base = base(2);
        base.leave(Some(at(2_000)));
        assert!(!base.allows(at(1_300), &path(900), RATE, 100));
        base.settle();
        assert!(base.allows(at(1_300), &path(900), RATE, 100));
    }
}
