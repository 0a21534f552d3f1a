//! Frame policy: above a queue limit, drops the least valuable frames first (Lai & Kohler §4.3).

use std::collections::BTreeSet;

use timeous_core::LateChoice;
use timeous_core::{DropReason, Duration, FrameId, Instant, PathState, Priority, Queue};

/// Queue limit above which frames are dropped. Not `non_exhaustive`: each has a counterpart in the protocol of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueLimit {
    /// Number of packets. The paper's policy has 2: it acts at three or more.
    Packets(usize),
    /// Queue that the path carries in this time, at the Congestion Manager's rate.
    Time(Duration),
    /// Queue that the path carries before its deadlines: every kept frame is expected to arrive completely and in time,
    /// with time for a retransmission. The less a frame is worth, the earlier it must arrive: from half of its time at
    /// priority 0 to all of it at 64, so that frames of little value make room in advance.
    Deadlines,
}

/// Drops B- and P-frames before keyframes when the queue exceeds `limit`.
///
/// The paper's packets are frames; here a frame may have many packets, and is dropped completely with all that refer to
/// it. The victim is the frame of lowest priority, among equals the largest, among those the oldest. Partly sent frames
/// are spared while there is another victim. The most valuable frame stays until its deadline whatever the limit,
/// because a stream that sends nothing learns nothing about its path. Under [`QueueLimit::Deadlines`] partly sent
/// frames stay, too, as estimates vary and the bytes are spent, and a frame on which others depend is not dropped just
/// for being late itself.
#[derive(Clone, Debug)]
pub struct Frames {
    limit: QueueLimit,
    /// Frame that is partly sent.
    started: FrameId,
    /// Frames in the queue, rebuilt at each call; a field only to reuse its memory.
    waiting: Vec<Waiting>,
}

impl Frames {
    /// Creates the policy with this queue limit.
    pub const fn new(limit: QueueLimit) -> Self {
        Self { limit, started: FrameId::NONE, waiting: Vec::new() }
    }

    /// Selects the frame to drop, if any.
    fn victim(&self, now: Instant, path: &PathState, frames: &[Waiting]) -> Option<usize> {
        let least = |count: usize| (0..count).min_by_key(|&at| frames[at].worth()).filter(|_| frames.len() > 1);
        let within = match self.limit {
            QueueLimit::Packets(limit) => frames.iter().map(|frame| frame.packets).sum::<usize>() <= limit,
            // Before the first RTT sample the path is unknown, and nothing is dropped.
            QueueLimit::Time(_) | QueueLimit::Deadlines if path.srtt.is_none() => true,
            QueueLimit::Time(limit) => path.rate.time_for(frames.iter().map(|frame| frame.bytes).sum()) <= limit,
            QueueLimit::Deadlines => return late_victim(now, path, frames),
        };
        if within { None } else { least(frames.len()) }
    }
}

impl LateChoice for Frames {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        let mut frames = std::mem::take(&mut self.waiting);
        gather(queue, self.started, &mut frames);
        while let Some(victim) = self.victim(now, path, &frames) {
            give_up(queue, &mut frames, victim);
        }
        // A retransmission does not interrupt a frame.
        if !(0..queue.len()).find(|&at| queue.get(at).is_some()).is_some_and(|first| queue.was_sent(first)) {
            self.started = frames.first().map_or(FrameId::NONE, |frame| frame.id);
        }
        self.waiting = frames;
    }
}

/// Priority from which a frame may use all of its time until the deadline. Chosen by us: a higher value gives frames of
/// middle priority less time (docs/design/late-choice.md).
const FULL_TIME_PRIORITY: Priority = Priority(64);

/// Queued frame, or a packet that is a frame by itself.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: FrameId,
    /// Index of its first packet.
    first: usize,
    packets: usize,
    bytes: u64,
    priority: Priority,
    enqueued: Instant,
    deadline: Instant,
    /// Whether a part of it was sent.
    started: bool,
}

impl Waiting {
    /// Sort key: the least valuable frame comes first.
    fn worth(&self) -> impl Ord + use<> {
        (self.started, self.priority, std::cmp::Reverse(self.bytes), self.first)
    }

    /// Time by which it must arrive, with `spare` time left for retransmissions; else frames are dropped.
    fn due(&self, spare: Duration) -> Instant {
        if self.started {
            return self.deadline;
        }
        let time = self.deadline.saturating_since(self.enqueued);
        let time = time.saturating_sub(spare).max(time / 2);
        let worth = u64::from(self.priority.0.min(FULL_TIME_PRIORITY.0));
        self.enqueued + time / 2 + time / 2 / u64::from(FULL_TIME_PRIORITY.0) * worth
    }
}

/// Collects the frames of a queue, in its order.
fn gather(queue: &dyn Queue, started: FrameId, frames: &mut Vec<Waiting>) {
    frames.clear();
    for at in 0..queue.len() {
        let Some((meta, len)) = queue.get(at) else { continue };
        let same = frames.iter_mut().rev().find(|frame| frame.id == meta.frame && frame.id != FrameId::NONE);
        let deadline = meta.deadline.unwrap_or(Instant::FAR_FUTURE);
        let was_sent = queue.was_sent(at);
        match same {
            Some(frame) => {
                frame.started |= was_sent;
                frame.packets += 1;
                frame.bytes += len as u64;
                frame.priority = frame.priority.max(meta.priority);
                frame.deadline = frame.deadline.min(deadline);
            }
            None => frames.push(Waiting {
                id: meta.frame,
                first: at,
                packets: 1,
                bytes: len as u64,
                priority: meta.priority,
                enqueued: meta.enqueued,
                deadline,
                started: was_sent || meta.frame == started && started != FrameId::NONE,
            }),
        }
    }
}

/// Selects the frame to drop so that the first late frame arrives in time. A late frame without a candidate before it
/// is skipped: later frames must make room.
fn late_victim(now: Instant, path: &PathState, frames: &[Waiting]) -> Option<usize> {
    let start = path.arrival(now, 0).median;
    let capacity = path.arrivals.and_then(|model| model.capacity);
    let rate = capacity.map_or(path.rate, |capacity| capacity.min(path.rate));
    // Half a round trip until a loss shows, some packets until it is certain, and the one-way delay again.
    let spare = path.srtt.unwrap_or(Duration::ZERO) * 2;
    let dearest = frames.iter().map(|frame| frame.priority).max()?;
    let mut bytes = 0;
    let mut least: Option<usize> = None;
    for (at, frame) in frames.iter().enumerate() {
        bytes += frame.bytes;
        let may_go = !frame.started && frame.priority < dearest;
        if may_go && least.is_none_or(|least| frame.worth() < frames[least].worth()) {
            least = Some(at);
        }
        let Some(least) = least else { continue };
        // A frame with many dependents is not dropped for being late itself, but at its deadline: frames not even
        // queued yet would go with it, and estimates vary.
        let for_itself = least == at && frame.priority >= FULL_TIME_PRIORITY;
        if !for_itself && start + rate.time_for(bytes) > frame.due(spare) {
            return Some(least);
        }
    }
    None
}

/// Drops a frame and all that refer to it.
fn give_up(queue: &mut dyn Queue, frames: &mut Vec<Waiting>, victim: usize) {
    let Waiting { id, first, .. } = frames[victim];
    let mut gone = BTreeSet::from([id]);
    for at in first..queue.len() {
        let Some((meta, _)) = queue.get(at) else { continue };
        let frame = meta.frame;
        let belongs = if frame == FrameId::NONE { at == first } else { frame == id };
        let refers = meta.references.iter().any(|reference| reference != FrameId::NONE && gone.contains(&reference));
        if belongs {
            queue.drop_at(at, DropReason::Policy);
        } else if refers || (frame != FrameId::NONE && gone.contains(&frame)) {
            queue.drop_at(at, DropReason::ReferenceLost);
            gone.insert(frame);
        }
    }
    frames.retain(|frame| if frame.id == FrameId::NONE { frame.first != first } else { !gone.contains(&frame.id) });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestQueue, at, path};
    use timeous_core::{AduMeta, Rate};

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
        // The first packet of frame 1 is sent; a frame of the same value is enqueued.
        let mut queue = TestQueue::default();
        queue.push_frame(1, &[]);
        queue.push_frame(2, &[]);
        queue.push_frame(2, &[]);
        policy.choose(at(1), &path(), &mut queue);
        assert_eq!(queue.left(), [0]);
    }

    /// Path with a rate of 100 bytes per 10 ms and a one-way delay of 20 ms.
    fn slow_path() -> PathState {
        let rtt = Some(Duration::from_millis(40));
        PathState { rate: Rate::from_kbps(80), srtt: rtt, min_rtt: rtt, ..path() }
    }

    /// Frames of one packet, each with its references, priority and deadline.
    fn with_deadlines(frames: &[(u32, &[u32], u8, u64)]) -> TestQueue {
        let mut queue = TestQueue::default();
        for &(frame, references, priority, deadline) in frames {
            queue.push_frame(frame, references);
            let meta = queue.meta_mut(queue.len() - 1);
            (meta.priority, meta.deadline) = (Priority(priority), Some(at(deadline)));
        }
        queue
    }

    #[test]
    fn by_deadlines_only_what_cannot_arrive_in_time_makes_others_go() {
        let frames: [(u32, &[u32], u8, u64); 5] =
            [(1, &[], 255, 200), (2, &[1], 254, 200), (3, &[2], 10, 300), (4, &[2], 254, 118), (5, &[], 9, 400)];
        let mut queue = with_deadlines(&frames);
        Frames::new(QueueLimit::Deadlines).choose(at(0), &slow_path(), &mut queue);
        assert_eq!(
            queue.left(),
            [0, 1, 3, 4],
            "frame 4 would come at 60 ms: frame 3 goes for it, and frame 5 need not"
        );
    }

    #[test]
    fn what_is_worth_little_has_half_of_its_time() {
        let mut queue = with_deadlines(&[(1, &[], 255, 200), (2, &[], 0, 158)]);
        Frames::new(QueueLimit::Deadlines).choose(at(0), &slow_path(), &mut queue);
        assert_eq!(queue.left(), [0], "frame 2 would come at 40 ms, and has 39");
    }

    #[test]
    fn what_much_depends_on_does_not_go_for_itself() {
        let mut queue = with_deadlines(&[(1, &[], 255, 300), (2, &[1], 100, 25)]);
        Frames::new(QueueLimit::Deadlines).choose(at(0), &slow_path(), &mut queue);
        assert_eq!(queue.left(), [0, 1], "frame 2 is thought to come at 40 ms, and its deadline has not come");
        let mut queue = with_deadlines(&[(1, &[], 255, 300), (2, &[1], 100, 25), (3, &[], 254, 80)]);
        Frames::new(QueueLimit::Deadlines).choose(at(0), &slow_path(), &mut queue);
        assert_eq!(queue.left(), [0, 2], "but it goes for a dearer one");
    }

    #[test]
    fn by_deadlines_a_frame_that_has_begun_ends() {
        let mut policy = Frames::new(QueueLimit::Deadlines);
        let mut queue = with_deadlines(&[(1, &[], 10, 200), (1, &[], 10, 200)]);
        policy.choose(at(0), &slow_path(), &mut queue);
        let frames: [(u32, &[u32], u8, u64); 3] = [(1, &[], 10, 200), (2, &[], 255, 300), (3, &[], 10, 200)];
        let mut queue = with_deadlines(&frames);
        policy.choose(at(175), &slow_path(), &mut queue);
        assert_eq!(queue.left(), [0, 1], "frame 1 will be late as far as one knows, and leaves all the same");
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

    /// Found by `timeous-peer-trials` over TCP, after a link was slow for six seconds: groups were dropped for five more,
    /// since the next packet in the kernel was expected to be as late as the ones that had waited before.
    #[test]
    fn after_a_standstill_what_waits_in_the_kernel_is_judged_by_what_the_path_delivers() {
        let ms = |millis| Some(Duration::from_millis(millis));
        let delivered = Some(Rate::from_kbps(4_000));
        let path = PathState { srtt: ms(750), min_rtt: ms(60), outstanding: 1_000, delivered, ..path() };
        let meta = AduMeta { deadline: Some(at(300)), ..AduMeta::default() };
        for now in [268, 269] {
            let worth = Frames::new(QueueLimit::Deadlines).is_worth_repeating(at(now), &path, &meta);
            assert_eq!(worth, now == 268, "2 ms at the link, and 30 on the way");
        }
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
