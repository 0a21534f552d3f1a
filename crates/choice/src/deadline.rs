//! Deadline policies: drop packets that cannot arrive in time.

use timeous_core::LateChoice;
use timeous_core::{AduMeta, DropReason, Duration, Instant, PathState, Queue};

/// Drops packets that are expired, or would rather expire on their way than not.
///
/// A packet ring itself never sends expired packets. Dropping those that would arrive late relies on the path's state,
/// and keeps bytes off the link that the receiver would discard. While nothing is in flight that state ages, and
/// nothing would show that the path is faster again: then only those are dropped that would be late over the fastest path
/// seen so far, and never the last one queued.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadlines;

impl LateChoice for Deadlines {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        give_up(now, path, queue, |meta, len| path.is_rather_late(now, meta, len));
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !path.is_rather_late(now, meta, 0)
    }
}

/// [`Deadlines`] for streams in which a late packet is worse than a missing one: also counts the RTT's mean deviation,
/// the latest RTT, and the bytes in flight. When a path slows down, these react before the smoothed RTT does, most of
/// all with a receiver that reports once per round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct Punctual;

impl LateChoice for Punctual {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        give_up(now, path, queue, |meta, len| meta.is_expired(now + punctual(now, path, meta, len)));
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !meta.is_expired(now + punctual(now, path, meta, 0))
    }

    fn is_punctual(&self) -> bool {
        true
    }
}

/// Pessimistic one-way delay of a packet.
fn punctual(now: Instant, path: &PathState, meta: &AduMeta, len: u64) -> Duration {
    path.longest_way().max(path.way_behind(now, meta.enqueued, len))
}

/// Drops packets that are expired, or would be on arrival, given the packet and its length.
fn give_up(now: Instant, path: &PathState, queue: &mut dyn Queue, is_too_late: impl Fn(&AduMeta, u64) -> bool) {
    let least = path.fastest_way();
    let last = queue.len().saturating_sub(1);
    for index in 0..queue.len() {
        let Some((meta, len)) = queue.get(index) else { continue };
        let is_hopeless = match path.outstanding {
            0 => index < last && meta.is_expired(now + least),
            _ => is_too_late(meta, len as u64),
        };
        if meta.is_expired(now) {
            queue.drop_at(index, DropReason::Expired);
        } else if is_hopeless {
            queue.drop_at(index, DropReason::TooLate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestQueue, at, path};

    #[test]
    fn what_would_expire_on_its_way_stays_at_home() {
        let mut queue = TestQueue::default();
        for deadline in [100, 130, 200] {
            queue.push(|meta| meta.deadline = Some(at(deadline)));
        }
        queue.push(|_| {});
        let (srtt, min_rtt) = (Some(Duration::from_millis(80)), Some(Duration::from_millis(80)));
        let path = PathState { srtt, min_rtt, outstanding: 1, ..path() };
        Deadlines.choose(at(101), &path, &mut queue);
        assert_eq!(queue.left(), [2, 3]);
        assert_eq!(queue.reason(0), Some(DropReason::Expired));
        assert_eq!(queue.reason(1), Some(DropReason::TooLate));
    }

    /// Found with CCID 3, whose receiver reports once per round trip: a queue of 240 ms had persisted for three of them.
    #[test]
    fn where_the_latest_round_trip_is_long_what_would_be_late_behind_it_stays_at_home() {
        let ms = |millis| Some(Duration::from_millis(millis));
        let path = PathState { srtt: ms(100), min_rtt: ms(40), latest_rtt: ms(280), outstanding: 1, ..path() };
        let waits = |choice: &mut dyn LateChoice, path: &PathState, deadline| {
            let mut queue = TestQueue::default();
            queue.push(|meta| meta.deadline = Some(at(deadline)));
            choice.choose(at(0), path, &mut queue);
            !queue.left().is_empty()
        };
        assert!(!waits(&mut Punctual, &path, 259), "260 ms on the way");
        assert!(waits(&mut Punctual, &path, 260));
        assert!(waits(&mut Punctual, &PathState { latest_rtt: ms(50), ..path }, 80), "the smoothed one is longer");
        assert!(waits(&mut Deadlines, &path, 80), "others try what may be in time");
    }

    #[test]
    fn a_path_that_was_slow_once_is_tried_again() {
        let mut queue = TestQueue::default();
        queue.push(|meta| meta.deadline = Some(at(150)));
        let (srtt, min_rtt) = (Some(Duration::from_millis(440)), Some(Duration::from_millis(440)));
        let path = PathState { srtt, min_rtt, ..path() };
        Deadlines.choose(at(100), &path, &mut queue);
        assert_eq!(queue.left(), [0], "nothing is under way that would tell otherwise");
        queue.push(|meta| meta.deadline = Some(at(319)));
        queue.push(|meta| meta.deadline = Some(at(320)));
        queue.push(|meta| meta.deadline = Some(at(200)));
        let single = PathState { rttvar: Duration::from_millis(220), ..path };
        Deadlines.choose(at(100), &single, &mut queue);
        assert_eq!(queue.left(), [0, 1, 2, 3], "a single round trip gives nothing up");
        Deadlines.choose(at(100), &path, &mut queue);
        assert_eq!(queue.left(), [2, 3], "220 ms at the least, and the last one tries it");
        Deadlines.choose(at(321), &path, &mut queue);
        assert!(queue.left().is_empty());
    }
}
