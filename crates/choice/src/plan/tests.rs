//! Tests of the planning policy with given frames, paths and results.

use timeous_core::{
    AduMeta, DropReason, Duration, Fate, FrameId, Instant, LateChoice, PathState, Priority, Queue, Rate, SubStream,
};

use super::Plan;
use crate::testing::{TestQueue, at, path};

/// Path with a transmission time of 12 ms per packet and a one-way delay of 20 ms.
fn slow_path() -> PathState {
    let rtt = Some(Duration::from_millis(40));
    PathState { rate: Rate::from_kbps(80), srtt: rtt, min_rtt: rtt, outstanding: 1, ..path() }
}

/// Queue of frames with their packets, references and deadlines.
fn queue(frames: &[(u32, usize, &[u32], u64)]) -> TestQueue {
    let mut queue = TestQueue::default();
    for &(frame, packets, references, deadline) in frames {
        for _ in 0..packets {
            queue.push_frame(frame, references);
            queue.meta_mut(queue.len() - 1).deadline = Some(at(deadline));
        }
    }
    queue
}

/// Frames sent, at 12 ms per packet.
fn leaving(mut plan: Plan, mut queue: TestQueue, path: &PathState) -> Vec<u32> {
    let mut frames = Vec::new();
    let mut now = at(0);
    loop {
        plan.choose(now, path, &mut queue);
        let Some(&first) = queue.left().first() else { return frames };
        frames.push(queue.get(first).map_or(0, |(meta, _)| meta.frame.0));
        queue.take(first);
        now += Duration::from_millis(12);
    }
}

#[test]
fn what_fits_leaves_in_order() {
    let queue = queue(&[(1, 2, &[], 200), (2, 1, &[1], 200), (3, 1, &[2], 200)]);
    assert_eq!(leaving(Plan::default(), queue, &slow_path()), [1, 1, 2, 3]);
}

/// Found by `timeous-lab bloat`: the end of time plus the estimate's error was a moment ago.
#[test]
fn what_has_no_deadline_is_never_late() {
    let mut queue = TestQueue::default();
    queue.push_frame(1, &[]);
    let short = Some(Duration::from_millis(2));
    Plan::default().choose(at(0), &PathState { srtt: short, min_rtt: short, ..slow_path() }, &mut queue);
    assert_eq!(queue.left(), [0]);
}

#[test]
fn the_tail_of_a_group_is_given_up_for_the_head_of_the_next() {
    let queue = queue(&[(1, 2, &[], 90), (2, 3, &[1], 90), (3, 3, &[2], 120), (4, 2, &[], 95), (5, 1, &[4], 105)]);
    assert_eq!(leaving(Plan::default(), queue, &slow_path()), [1, 1, 4, 4, 5]);
}

#[test]
fn what_cannot_finish_does_not_begin() {
    let queue = queue(&[(1, 9, &[], 100), (2, 1, &[], 100)]);
    assert_eq!(leaving(Plan::default(), queue, &slow_path()), [2]);
}

#[test]
fn nothing_leaves_whose_reference_is_lost() {
    let mut plan = Plan::default();
    let lost = timeous_core::AduMeta { frame: FrameId(1), ..Default::default() };
    plan.on_fate(&lost, Fate::Lost);
    let mut queue = queue(&[(2, 1, &[1], 300), (3, 1, &[2], 300), (4, 1, &[], 300)]);
    plan.choose(at(0), &slow_path(), &mut queue);
    assert_eq!(queue.left(), [2]);
    assert_eq!(queue.reason(1), Some(DropReason::ReferenceLost));
}

/// Found by `timeous-lab bloat`: the rest of a group was sent in vain when the loss of its keyframe was reported after
/// its first dependents were sent.
#[test]
fn a_chain_falls_with_its_head_though_what_is_between_has_left() {
    let mut plan = Plan::default();
    let mut sent = queue(&[(1, 1, &[], 300), (2, 1, &[1], 300), (3, 1, &[2], 300), (4, 1, &[], 300)]);
    plan.choose(at(0), &slow_path(), &mut sent);
    let head = *sent.meta_mut(0);
    sent.take(0);
    sent.take(1);
    plan.on_fate(&head, Fate::Lost);
    plan.choose(at(50), &slow_path(), &mut sent);
    assert_eq!(sent.left(), [3], "frame 2 came for nothing");
    assert_eq!(sent.reason(2), Some(DropReason::ReferenceLost));
}

/// Queue of a group of eight frames after the choice at 50 ms. Four frames have left, of the first of which `lost` packets, due at `due`, are
/// lost, and four more packets can be in time.
fn after_a_loss(lost: usize, due: u64) -> TestQueue {
    const LATER: u64 = 50 + 20 + 12 * 4 + 2;
    let mut plan = Plan::default();
    let first = |packets, due| (1, packets, [].as_slice(), due);
    let sent = [first(1, due), (2, 1, &[1], LATER), (3, 1, &[2], LATER), (4, 1, &[3], LATER)];
    plan.choose(at(0), &slow_path(), &mut queue(&sent));
    let later = [(5, 1, [4].as_slice(), LATER), (6, 1, &[5], LATER), (7, 1, &[6], LATER), (8, 1, &[7], LATER)];
    let mut queue = queue(&[[first(lost, due)].as_slice(), &later].concat());
    queue.lost = lost;
    plan.choose(at(50), &slow_path(), &mut queue);
    queue
}

/// Found by `timeous-lab bloat` at 1 % loss: what was lost of a keyframe was given up for later frames of its group, which left for nothing.
#[test]
fn what_is_lost_counts_for_all_that_depends_on_it_though_what_is_between_has_left() {
    let queue = after_a_loss(2, 120);
    assert!(queue.left().starts_with(&[0, 1, 2]), "{:?}", queue.left());
}

#[test]
fn what_depends_on_a_lost_frame_that_is_given_up_goes_with_it() {
    let queue = after_a_loss(1, 60);
    assert_eq!(queue.reason(0), Some(DropReason::TooLate));
    assert!(queue.left().is_empty(), "{:?}", queue.left());
}

/// Frames sent of groups of four (one every 100 ms with 400 ms to the deadline, keyframes of a hundred packets): a
/// keyframe was lost at 900 ms, and the frames from 10 to `last` are queued.
fn left_of_a_broken_group(path: PathState, now: u64, last: u32) -> Vec<u32> {
    let frames = |from: u32, to: u32| {
        let mut queue = TestQueue::default();
        for n in from..to {
            let is_head = n % 4 == 1;
            for _ in 0..if is_head { 100 } else { 1 } {
                queue.push_frame(n, if is_head { vec![] } else { vec![n - 1] }.as_slice());
                let place = queue.len() - 1;
                let meta = queue.meta_mut(place);
                (meta.enqueued, meta.deadline) = (at(100 * u64::from(n)), Some(at(100 * u64::from(n) + 400)));
            }
        }
        queue
    };
    let mut plan = Plan::default();
    plan.choose(at(900), &path, &mut frames(1, 10));
    plan.on_fate(&timeous_core::AduMeta { frame: FrameId(9), ..Default::default() }, Fate::Lost);
    let mut queue = frames(10, last + 1);
    plan.choose(at(now), &path, &mut queue);
    queue.left().iter().map(|&place| queue.get(place).map_or(0, |(meta, _)| meta.frame.0)).collect()
}

/// Found by `timeous-lab bloat`: a stream that was silent until the next group had no window for its keyframe, and so on for ever.
#[test]
fn where_the_path_is_too_slow_for_a_head_what_is_useless_holds_the_place_of_the_next() {
    let left = |rate: u64, now: u64, last: u32| {
        left_of_a_broken_group(PathState { rate: Rate::from_kbps(rate), ..slow_path() }, now, last)
    };
    assert_eq!(left(200, 1_101, 11), [10, 11], "a head takes half a second");
    assert_eq!(left(200, 1_201, 12), [], "what left now would be in its way");
    assert_eq!(left(2_000, 1_101, 11), [], "there is a window for it");
    assert_eq!(left(200, 1_301, 13), [13; 100], "it gives way to what is of use");
}

/// Found by `timeous-peer-trials`: a stream beside another flow filled their shared queue with useless packets, and the
/// next keyframe was late behind them.
#[test]
fn among_others_what_is_useless_goes_where_the_head_has_its_window_and_would_be_late_behind_the_queue() {
    // A keyframe takes 274 ms on the link, and 20 ms from the queue's end.
    let left = |rtt: u64, window: u64| {
        let srtt = Some(Duration::from_millis(rtt));
        let path = PathState { rate: Rate::from_kbps(350), srtt, window, contended: true, ..slow_path() };
        left_of_a_broken_group(path, 1_101, 11)
    };
    assert_eq!(left(160, 20_000), []);
    assert_eq!(left(160, 5_000), [10, 11], "it has none yet");
    assert_eq!(left(80, 20_000), [10, 11], "it will be in time");
}

/// Found by `timeous-peer-trials` over TCP: after the link's rate fell, each keyframe was dropped after its first packet.
#[test]
fn after_a_standstill_what_waits_in_the_kernel_is_judged_by_what_the_path_delivers() {
    let (srtt, delivered) = (Some(Duration::from_millis(750)), Some(Rate::from_kbps(4_000)));
    let path = PathState { srtt, delivered, outstanding: 1_000, ..slow_path() };
    let meta = AduMeta { frame: FrameId(1), deadline: Some(at(300)), ..AduMeta::default() };
    let mut plan = Plan::default();
    assert!(plan.is_worth_repeating(at(277), &path, &meta));
    assert!(!plan.is_worth_repeating(at(279), &path, &meta), "2 ms at the link, and 20 on the way");
    plan.on_fate(&meta, Fate::Lost);
    assert!(!plan.is_worth_repeating(at(0), &path, &meta), "the rest of it is lost");
}

#[test]
fn only_what_stands_before_the_next_packet_is_given_up() {
    let mut queue = queue(&[(1, 9, &[], 100), (2, 1, &[], 100), (3, 9, &[], 100)]);
    Plan::default().choose(at(0), &slow_path(), &mut queue);
    assert_eq!(queue.left(), (9..19).collect::<Vec<_>>(), "frame 3 may be wanted if the path proves faster");
}

#[test]
fn a_user_can_weigh_audio_above_video() {
    let frames = || {
        let mut queue = queue(&[(1, 2, &[], 62), (2, 2, &[], 63)]);
        queue.meta_mut(2).substream = SubStream(1);
        queue.meta_mut(3).substream = SubStream(1);
        queue
    };
    assert_eq!(leaving(Plan::default(), frames(), &slow_path())[..2], [1, 1]);
    let weighing = Plan::default().weighing(SubStream(1), 2);
    assert_eq!(leaving(weighing, frames(), &slow_path()), [2, 2]);
}

#[test]
fn of_frames_of_a_size_the_one_of_higher_priority_leaves() {
    let mut queue = queue(&[(1, 2, &[], 62), (2, 2, &[], 62)]);
    for place in [2, 3] {
        queue.meta_mut(place).priority = Priority::HIGHEST;
    }
    assert_eq!(leaving(Plan::default(), queue, &slow_path()), [2, 2]);
}

#[test]
fn before_the_first_round_trip_nothing_is_given_up_but_what_is_expired() {
    let queue = queue(&[(1, 1, &[], 0), (2, 1, &[], 1), (3, 1, &[], 30)]);
    assert_eq!(leaving(Plan::default(), queue, &path()), [1, 3]);
}

#[test]
fn packets_without_a_frame_are_frames_of_their_own() {
    let mut queue = TestQueue::default();
    for _ in 0..6 {
        queue.push(|meta| meta.deadline = Some(at(60)));
    }
    let mut plan = Plan::default();
    plan.choose(at(0), &slow_path(), &mut queue);
    assert_eq!(queue.left().len(), 6, "two do not fit, and are not in the way");
}

#[test]
fn a_path_that_seems_too_slow_is_tried_with_what_might_make_it() {
    let slow = PathState { srtt: Some(Duration::from_millis(400)), outstanding: 9_000, ..slow_path() };
    let queue = queue(&[(1, 1, &[], 100), (2, 1, &[], 10)]);
    assert_eq!(leaving(Plan::default(), queue, &slow), [1]);
}

/// Found with temporal layers over a lossy link: the last frame before a keyframe, alone in the queue, left as if the
/// path were empty, and the keyframe was late behind it.
#[test]
fn a_frame_in_the_way_of_an_expected_keyframe_does_not_leave_because_nothing_else_waits() {
    let push = |queue: &mut TestQueue, n: u32| {
        let is_head = n % 4 == 1;
        for _ in 0..if is_head { 12 } else { 6 } {
            queue.push_frame(n, if is_head { vec![] } else { vec![n - 1] }.as_slice());
            let place = queue.len() - 1;
            let meta = queue.meta_mut(place);
            (meta.enqueued, meta.deadline) = (at(100 * u64::from(n)), Some(at(100 * u64::from(n) + 250)));
        }
    };
    let left = |rtt| {
        let (mut plan, mut before, mut tail) = (Plan::default(), TestQueue::default(), TestQueue::default());
        (1..8).for_each(|n| push(&mut before, n));
        plan.choose(at(700), &path(), &mut before);
        push(&mut tail, 8);
        let busy = PathState { srtt: Some(Duration::from_millis(rtt)), outstanding: 2_000, ..slow_path() };
        plan.choose(at(850), &busy, &mut tail);
        tail.left().len()
    };
    assert_eq!(left(40), 6, "the keyframe ends 64 ms before it is due");
    assert_eq!(left(140), 0, "it would be late by 36 ms");
}

/// Found by `timeous-peer-trials` over a link with spare capacity: a plan excluded a keyframe because of a
/// momentary estimate of the path, and dropped it a moment later when the end of the previous frame was sent, and the
/// rest of its group with it.
#[test]
fn what_a_plan_left_out_is_not_given_up_by_it_when_the_rest_has_left() {
    let slow = PathState { srtt: Some(Duration::from_millis(190)), outstanding: 1_500, ..slow_path() };
    let left = |path: PathState| {
        let mut queue = queue(&[(1, 1, &[], 400), (2, 8, &[], 300)]);
        (1..9).for_each(|place| queue.meta_mut(place).enqueued = at(100));
        let mut plan = Plan::default();
        plan.choose(at(100), &slow, &mut queue);
        queue.take(0);
        plan.choose(at(105), &path, &mut queue);
        queue.left().len()
    };
    assert_eq!(left(slow_path()), 8, "it takes 116 ms of 195");
    assert_eq!(left(PathState { latest_rtt: slow_path().srtt, ..slow }), 8, "and the queue was seen to be gone");
    assert_eq!(left(slow), 0, "it takes 266 ms, and would be in the way of the next");
}

#[test]
fn a_layer_is_given_up_early_where_the_base_would_be_late_later() {
    // A base frame of two packets every 40 ms and a refinement of three: only the base fits, in 24 of 40 ms.
    let mut plan = Plan::default();
    let mut queue = TestQueue::default();
    let mut left = Vec::new();
    let mut now = at(0);
    for n in 0..24_u32 {
        let captured = at(u64::from(n / 2) * 40);
        let (frame, packets, reference) = if n % 2 == 0 { (n + 1, 2, n.checked_sub(1)) } else { (n + 1, 3, Some(n)) };
        for _ in 0..packets {
            let references: Vec<u32> = reference.into_iter().collect();
            queue.push_frame(frame, &references);
            let meta = queue.meta_mut(queue.len() - 1);
            (meta.enqueued, meta.deadline) = (captured, Some(captured + Duration::from_millis(160)));
        }
        if n % 2 == 0 {
            continue;
        }
        // At the end the queue is drained.
        let until: Instant = captured + Duration::from_millis(if n < 23 { 40 } else { 400 });
        now = now.max(captured);
        while now < until {
            plan.choose(now, &slow_path(), &mut queue);
            let Some(&first) = queue.left().first() else { break };
            left.push(queue.get(first).map_or(0, |(meta, _)| meta.frame.0));
            queue.take(first);
            now += Duration::from_millis(12);
        }
    }
    let base = (1..=23).step_by(2).filter(|frame| left.iter().filter(|left| *left == frame).count() == 2).count();
    assert_eq!(base, 12, "no base frame is late: {left:?}");
}
