//! By frame: beyond a queue length, the frames worth least are given up first (Lai & Kohler §4.3).

use std::collections::BTreeSet;

use timeous_core::LateChoice;
use timeous_core::{DropReason, Duration, FrameId, Instant, PathState, Priority, Queue};

/// How long the queue may grow before frames are given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// So many packets. The paper's policy has 2: it acts on three or more.
    Packets(usize),
    /// As much as the path carries in this time, at the rate that the Congestion Manager knows.
    Time(Duration),
}

/// Gives up B- and P-frames before I-frames when more is queued than `limit`.
///
/// The paper's packets are frames; here a frame may have many packets, and goes whole, with all that refers to it.
/// The victim is the frame with the lowest priority; among equals the oldest, which is the stalest. A frame of which
/// a part has left is spared as long as another can go: its bytes are spent. The dearest frame of all stays whatever
/// the limit says: what is known of a path comes from what is sent, and where nothing is sent any more nothing is
/// learnt. That is for deadlines to give up.
#[derive(Clone, Debug)]
pub struct Frames {
    limit: QueueLimit,
    /// The frame whose packets are leaving.
    started: FrameId,
}

impl Frames {
    /// The policy that keeps the queue within `limit`.
    pub const fn new(limit: QueueLimit) -> Self {
        Self { limit, started: FrameId::NONE }
    }

    fn is_within(&self, packets: usize, bytes: usize, path: &PathState) -> bool {
        match self.limit {
            QueueLimit::Packets(limit) => packets <= limit,
            // Before the first round trip nothing is known of the path, and nothing is given up.
            QueueLimit::Time(_) if path.srtt.is_none() => true,
            QueueLimit::Time(limit) => path.rate.time_for(bytes as u64) <= limit,
        }
    }
}

impl LateChoice for Frames {
    fn choose(&mut self, _: Instant, path: &PathState, queue: &mut dyn Queue) {
        let (mut packets, mut bytes) = length(queue);
        if !self.is_within(packets, bytes, path) {
            let mut victims = victims(queue, self.started);
            // The next to go is at the end.
            while let Some(victim) = victims.pop() {
                if victims.is_empty() || self.is_within(packets, bytes, path) {
                    break;
                }
                let (gone_packets, gone_bytes) = give_up(queue, &victim);
                packets -= gone_packets;
                bytes -= gone_bytes;
            }
        }
        self.started = (0..queue.len()).find_map(|at| queue.get(at)).map_or(FrameId::NONE, |(meta, _)| meta.frame);
    }
}

/// How much is queued, in packets and in bytes.
fn length(queue: &dyn Queue) -> (usize, usize) {
    let live = (0..queue.len()).filter_map(|at| queue.get(at));
    live.fold((0, 0), |(packets, bytes), (_, len)| (packets + 1, bytes + len))
}

/// A frame that may be given up, or a packet that is one by itself.
#[derive(Clone, Copy, Debug)]
struct Victim {
    frame: FrameId,
    first: usize,
    priority: Priority,
    spared: bool,
}

/// What may be given up, the least dear at the end.
fn victims(queue: &dyn Queue, started: FrameId) -> Vec<Victim> {
    let mut victims: Vec<Victim> = Vec::new();
    for at in 0..queue.len() {
        let Some((meta, _)) = queue.get(at) else { continue };
        let same = victims.iter_mut().rev().find(|v| v.frame == meta.frame && v.frame != FrameId::NONE);
        match same {
            Some(victim) => victim.priority = victim.priority.max(meta.priority),
            None => victims.push(Victim {
                frame: meta.frame,
                first: at,
                priority: meta.priority,
                spared: meta.frame == started && started != FrameId::NONE,
            }),
        }
    }
    victims.sort_by_key(|v| std::cmp::Reverse((v.spared, v.priority, v.first)));
    victims
}

/// Gives up a frame and all that refers to it, and says how much that was.
fn give_up(queue: &mut dyn Queue, victim: &Victim) -> (usize, usize) {
    let mut gone = BTreeSet::from([victim.frame]);
    let (mut packets, mut bytes) = (0, 0);
    for at in victim.first..queue.len() {
        let Some((meta, len)) = queue.get(at) else { continue };
        let frame = meta.frame;
        let belongs = if frame == FrameId::NONE { at == victim.first } else { gone.contains(&frame) };
        let refers = meta.references.iter().any(|reference| reference != FrameId::NONE && gone.contains(&reference));
        if belongs || refers {
            let reason = if belongs && frame == victim.frame { DropReason::Policy } else { DropReason::ReferenceLost };
            queue.drop_at(at, reason);
            gone.insert(frame);
            packets += 1;
            bytes += len;
        }
    }
    (packets, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestQueue, at, path};
    use timeous_core::Rate;

    const I: Priority = Priority::HIGHEST;
    const B: Priority = Priority::LOWEST;

    fn paper() -> Frames {
        Frames::new(QueueLimit::Packets(2))
    }

    fn single_packets(priorities: &[Priority]) -> TestQueue {
        let mut queue = TestQueue::default();
        for &priority in priorities {
            queue.push(|meta| meta.priority = priority);
        }
        queue
    }

    #[test]
    fn two_packets_may_wait() {
        let mut queue = single_packets(&[B, B]);
        paper().choose(at(0), &path(), &mut queue);
        assert_eq!(queue.left(), [0, 1]);
    }

    #[test]
    fn at_three_packets_the_stalest_b_frame_goes_and_i_frames_stay() {
        let mut queue = single_packets(&[I, B, B]);
        paper().choose(at(0), &path(), &mut queue);
        assert_eq!(queue.left(), [0, 2]);
    }

    #[test]
    fn i_frames_go_only_when_nothing_else_is_left() {
        let mut queue = single_packets(&[I, B, I, B, I]);
        paper().choose(at(0), &path(), &mut queue);
        assert_eq!(queue.left(), [2, 4], "both B-frames, then the stalest I-frame");
    }

    #[test]
    fn a_frame_goes_whole_and_takes_along_what_refers_to_it() {
        let mut queue = TestQueue::default();
        queue.push_frame(1, &[]);
        queue.push_frame(2, &[1]);
        queue.push_frame(2, &[1]);
        queue.push_frame(3, &[2]);
        queue.push_frame(4, &[]);
        for (index, priority) in [200, 100, 100, 150, 200].into_iter().enumerate() {
            queue.meta_mut(index).priority = Priority(priority);
        }
        paper().choose(at(0), &path(), &mut queue);
        assert_eq!(queue.left(), [0, 4]);
        assert_eq!(queue.reason(1), Some(DropReason::Policy));
        assert_eq!(queue.reason(3), Some(DropReason::ReferenceLost));
    }

    #[test]
    fn a_frame_of_which_a_part_has_left_is_spared() {
        let mut policy = paper();
        let mut queue = TestQueue::default();
        queue.push_frame(1, &[]);
        queue.push_frame(1, &[]);
        policy.choose(at(0), &path(), &mut queue);
        // The first packet of frame 1 leaves; a frame of the same worth comes in.
        let mut queue = TestQueue::default();
        queue.push_frame(1, &[]);
        queue.push_frame(2, &[]);
        queue.push_frame(2, &[]);
        policy.choose(at(1), &path(), &mut queue);
        assert_eq!(queue.left(), [0]);
    }

    #[test]
    fn the_dearest_frame_stays_when_the_path_seems_too_slow_for_any() {
        let path = PathState { rate: Rate::from_kbps(8), srtt: Some(Duration::from_millis(50)), ..path() };
        let mut queue = TestQueue::default();
        for (frame, references, priority) in [(1, [].as_slice(), 255), (1, &[], 255), (2, &[1], 100), (3, &[2], 90)] {
            queue.push_frame(frame, references);
            queue.meta_mut(queue.len() - 1).priority = Priority(priority);
        }
        Frames::new(QueueLimit::Time(Duration::from_millis(100))).choose(at(0), &path, &mut queue);
        assert_eq!(queue.left(), [0, 1]);
    }

    #[test]
    fn a_limit_in_time_follows_the_rate_of_the_path() {
        let path = PathState { rate: Rate::from_kbps(80), srtt: Some(Duration::from_millis(50)), ..path() };
        let mut queue = TestQueue::default();
        for _ in 0..10 {
            queue.push(|_| {}); // 100 bytes: 10 ms each
        }
        Frames::new(QueueLimit::Time(Duration::from_millis(65))).choose(at(0), &path, &mut queue);
        assert_eq!(queue.left(), [4, 5, 6, 7, 8, 9]);
    }
}
