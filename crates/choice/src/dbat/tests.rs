//! Tests of DBAT, event by event. Unless noted, the streams are the paper's (§4): 1 kB packets at 320 kbit/s over 150
//! ms; with packets of 100 bytes, a tenth of the rate.

mod carried;

use super::*;
use crate::testing::{TestQueue, at, path};
use crate::{Chain, Deadlines, Dependencies, Frames, QueueLimit};
use timeous_core::{Duration, Priority, Rate, Reason, Thresholds};

/// Path with an RTT of 150 ms and 1 Mbit/s.
fn dumbbell() -> PathState {
    let rtt = Some(Duration::from_millis(150));
    PathState { rate: Rate::from_kbps(1_000), srtt: rtt, min_rtt: rtt, ..path() }
}

fn tuner(settings: Settings) -> Tuner {
    let mut tuner = Tuner::new(settings);
    tuner.set_rate(Rate::from_kbps(320));
    tuner
}

/// Lets the `n`th packet arrive at the stream's rate, while no packets are sent.
fn stuck(tuner: &mut Tuner, n: u64) -> Level {
    tuner.arrived(at(25 * n), 1_000 * n, 1_000);
    tuner.judge(at(25 * n), &dumbbell(), 1_000 * n)
}

#[test]
fn the_thresholds_of_the_papers_rates_and_round_trips() {
    let table = [
        (80, [200, 1_500, 4_500]),
        (120, [300, 2_250, 6_750]),
        (240, [600, 4_500, 13_500]),
        (320, [800, 6_000, 18_000]),
        (640, [1_600, 12_000, 36_000]),
        (960, [2_400, 18_000, 54_000]),
        (1_920, [4_800, 36_000, 108_000]),
    ];
    for (rate, wanted) in table {
        for (rtt, min) in [20, 150, 450].into_iter().zip(wanted) {
            let thresholds = Thresholds::of(Rate::from_kbps(rate), Duration::from_millis(rtt), 0);
            assert_eq!(thresholds, Thresholds { min, max: 2 * min }, "{rate} kbit/s, {rtt} ms");
        }
    }
}

#[test]
fn two_packets_may_wait_where_rate_and_delay_say_less() {
    let rtt = Some(Duration::from_millis(20));
    let path = PathState { srtt: rtt, min_rtt: rtt, ..dumbbell() };
    let mut tuner = Tuner::new(Settings::PAPER);
    tuner.set_rate(Rate::from_kbps(80));
    tuner.arrived(at(0), 1_000, 1_000);
    tuner.judge(at(0), &path, 1_000);
    assert_eq!(tuner.thresholds(), Some(Thresholds { min: 2_000, max: 4_000 }));
    tuner.set_rate(Rate::from_kbps(1_920));
    tuner.judge(at(1), &path, 1_000);
    assert_eq!(tuner.thresholds(), Some(Thresholds { min: 4_800, max: 9_600 }));
}

/// At 960 kbit/s and 450 ms, `Max_Th` is 108 kB, and the paper's send buffer holds 64.
#[test]
fn the_thresholds_are_within_the_send_buffer_if_its_size_is_said() {
    let rtt = Some(Duration::from_millis(450));
    let path = PathState { srtt: rtt, min_rtt: rtt, ..dumbbell() };
    let told = |most| {
        let mut tuner = Tuner::new(Settings { most, ..Settings::PAPER });
        tuner.set_rate(Rate::from_kbps(960));
        // No packets are sent, and the buffer is full from the 64th on.
        let mut arrive = |n: u64| {
            tuner.arrived(at(8 * n), 1_000 * n.min(64), 1_000);
            tuner.judge(at(8 * n), &path, 1_000 * n.min(64))
        };
        (1..200).map(&mut arrive).position(|level| level >= Level::Filling)
    };
    assert_eq!(told(None), None, "the middle is at 81 kB");
    assert_eq!(told(Some(48_000)), Some(42), "at an average of more than 36 kB, seven packets behind the queue");
    let mut tuner = Tuner::new(Settings { most: Some(48_000), ..Settings::PAPER });
    tuner.set_rate(Rate::from_kbps(80));
    tuner.judge(at(0), &path, 0);
    assert_eq!(tuner.thresholds(), Some(Thresholds { min: 4_500, max: 9_000 }), "what is less stays");
}

/// After `n` arrivals the average is `n - 7 + 7 (7/8)^n` packets.
#[test]
fn a_queue_from_which_nothing_leaves_passes_each_threshold_in_turn() {
    let mut tuner = tuner(Settings::PAPER);
    let levels: Vec<Level> = (1..=20).map(|n| stuck(&mut tuner, n)).collect();
    let first = |level| 1 + levels.iter().position(|&seen| seen == level).unwrap();
    assert_eq!(first(Level::Low), 1);
    assert_eq!(first(Level::Fair), 12, "5611 bytes after 11 arrivals, 6410 after 12");
    assert_eq!(first(Level::Filling), 16, "8945 bytes after 15 arrivals, 9826 after 16");
    assert_eq!(first(Level::Overfull), 19, "11633 bytes after 18 arrivals, 12554 after 19");
}

#[test]
fn the_source_is_told_beyond_the_middle_and_then_once_a_round_trip() {
    let mut tuner = tuner(Settings::PAPER);
    let mut told = Vec::new();
    for n in 1..=30 {
        stuck(&mut tuner, n);
        told.extend(tuner.poll_advice());
    }
    let at_and_why: Vec<_> = told.iter().map(|advice| (advice.at, advice.reason)).collect();
    // The 22nd arrival would be 150 ms after the first advice: more than a round trip must have passed (Fig. 5: `> RTT`).
    assert_eq!(
        at_and_why,
        [(at(400), Reason::Filling), (at(575), Reason::Overfull), (at(750), Reason::Overfull)],
        "the 16th arrival, the 23rd, the 30th"
    );
    let first = told[0];
    assert_eq!((first.queued, first.average), (16_000, 9_826));
    assert_eq!(first.thresholds, Thresholds { min: 6_000, max: 12_000 });
    assert_eq!((first.stream, first.path), (Rate::from_kbps(320), Some(Rate::from_kbps(1_000))));
    // 3826 bytes above the first threshold, over 600 ms.
    assert_eq!(first.rate.as_bps(), 320_000 - 51_013);
}

#[test]
fn a_source_whose_queue_goes_back_is_not_asked_for_less_again() {
    let mut tuner = tuner(Settings::PAPER);
    (1..=16).for_each(|n| _ = stuck(&mut tuner, n));
    let first = tuner.poll_advice().unwrap();
    tuner.set_rate(first.rate);
    // A round trip later the average is still above the midpoint, but the queue has become shorter.
    tuner.arrived(at(575), 15_000, 1_000);
    tuner.judge(at(575), &dumbbell(), 15_000);
    let second = tuner.poll_advice().unwrap();
    assert!(second.average > first.average);
    assert_eq!(second.rate, first.rate);
    // Then the queue grows again.
    tuner.arrived(at(750), 15_500, 1_000);
    tuner.judge(at(750), &dumbbell(), 15_500);
    assert!(tuner.poll_advice().unwrap().rate < first.rate);
}

#[test]
fn without_an_arrival_nobody_is_told() {
    let mut tuner = tuner(Settings::PAPER);
    (1..=16).for_each(|n| _ = stuck(&mut tuner, n));
    assert!(tuner.poll_advice().is_some());
    assert_eq!(tuner.judge(at(5_000), &dumbbell(), 16_000), Level::Filling);
    assert_eq!(tuner.poll_advice(), None);
}

#[test]
fn what_was_not_taken_gives_way_to_what_is_newer() {
    let mut tuner = tuner(Settings::PAPER);
    (1..=23).for_each(|n| _ = stuck(&mut tuner, n));
    assert_eq!(tuner.poll_advice().map(|advice| advice.at), Some(at(575)));
    assert_eq!(tuner.poll_advice(), None);
}

#[test]
fn nothing_is_held_against_a_stream_or_a_path_of_which_nothing_is_known() {
    let mut silent = Tuner::new(Settings::PAPER);
    assert_eq!(stuck(&mut silent, 60), Level::Unknown);
    let mut tuner = tuner(Settings::PAPER);
    tuner.arrived(at(0), 900_000, 1_000);
    assert_eq!(tuner.judge(at(0), &path(), 900_000), Level::Unknown);
    assert_eq!((tuner.poll_advice(), tuner.thresholds()), (None, None));
    assert_eq!(tuner.judge(at(0), &dumbbell(), 900_000), Level::Overfull);
    tuner.set_rate(Rate::ZERO);
    assert_eq!(tuner.judge(at(0), &dumbbell(), 900_000), Level::Unknown);
}

#[test]
fn the_thresholds_follow_a_switch_at_once() {
    let mut tuner = tuner(Settings::PAPER);
    (1..=16).for_each(|n| _ = stuck(&mut tuner, n));
    tuner.set_rate(Rate::from_kbps(240));
    assert_eq!(tuner.judge(at(401), &dumbbell(), 16_000), Level::Overfull, "9826 bytes where 9000 may wait");
    tuner.set_rate(Rate::from_kbps(640));
    assert_eq!(tuner.judge(at(402), &dumbbell(), 16_000), Level::Low);
}

/// Found by `timeous-lab dbat-loss`: each reduction of the rate dropped twelve packets at once, more than all losses of the path.
#[test]
fn what_a_higher_rate_has_left_has_time_to_go() {
    let fallen = |settings| {
        let mut tuner = tuner(settings);
        (1..=16).for_each(|n| _ = stuck(&mut tuner, n));
        tuner.set_rate(Rate::from_kbps(240));
        tuner
    };
    let judge = |tuner: &mut Tuner, millis| tuner.judge(at(millis), &dumbbell(), 16_000);
    assert_eq!(judge(&mut fallen(Settings::PAPER), 401), Level::Overfull, "9826 bytes where 9000 may wait");
    let sparing = Settings { spare_what_remains: true, ..Settings::PAPER };
    let mut kind = fallen(sparing);
    assert_eq!(judge(&mut kind, 401), Level::Filling, "12 000 might, a moment ago");
    assert_eq!(judge(&mut kind, 1_000), Level::Filling);
    assert_eq!(judge(&mut kind, 1_001), Level::Overfull, "four delays");

    // A path that turns out shorter leaves no queue to spare.
    let mut shorter = tuner(sparing);
    (1..=16).for_each(|n| _ = stuck(&mut shorter, n));
    let path = PathState { min_rtt: Some(Duration::from_millis(75)), ..dumbbell() };
    assert_eq!(shorter.judge(at(401), &path, 16_000), Level::Overfull, "9826 bytes where 6000 may wait");

    // A stream that does not slow down fills the buffer.
    let mut grows = fallen(sparing);
    (17..=20).for_each(|n| _ = stuck(&mut grows, n));
    assert_eq!(judge(&mut grows, 501), Level::Overfull, "more than 12 000");
}

#[test]
fn a_pause_is_not_judged_by_the_queue_before_it() {
    let mut tuner = tuner(Settings::PAPER);
    (1..=20).for_each(|n| _ = stuck(&mut tuner, n));
    // The queue is empty by 500 ms. 24 packets would have come by 1.1 s; (7/8)^23 of 13 kB is 600 bytes.
    tuner.arrived(at(1_100), 1_000, 1_000);
    assert_eq!(tuner.judge(at(1_100), &dumbbell(), 1_000), Level::Low);
    assert!((600..800).contains(&tuner.average()), "{}", tuner.average());
}

#[test]
fn a_stream_that_nothing_holds_up_stays_below_one_packet() {
    let mut tuner = tuner(Settings::PAPER);
    for n in 1..=200 {
        tuner.arrived(at(25 * n), 1_000, 1_000);
        assert_eq!(tuner.judge(at(25 * n), &dumbbell(), 1_000), Level::Low);
        assert!(tuner.average() <= 1_000);
    }
}

#[test]
fn room_is_told_step_by_step_up_to_what_the_path_carries() {
    let mut tuner = tuner(Settings::default());
    let mut told = Vec::new();
    let mut len = 1_000;
    for n in 1..=200 {
        tuner.arrived(at(25 * n), len, len);
        tuner.judge(at(25 * n), &dumbbell(), len);
        if let Some(advice) = tuner.poll_advice() {
            assert_eq!(advice.reason, Reason::Room);
            tuner.set_rate(advice.rate);
            len = advice.rate.bytes_in(Duration::from_millis(25));
            told.push((advice.at, advice.rate.as_bps() / 1_000));
        }
    }
    // More than four round trips after the first arrival, then more than two between steps, and finally fifteen
    // sixteenths of the path's rate.
    let wanted = [(650, 400), (975, 500), (1_300, 625), (1_625, 781), (1_950, 937)];
    assert_eq!(told, wanted.map(|(millis, kbps)| (at(millis), kbps)));
}

#[test]
fn where_the_queue_has_filled_before_more_is_tried_later_and_by_a_smaller_step() {
    let mut tuner = tuner(Settings::default());
    let path = PathState { rate: Rate::from_kbps(400), ..dumbbell() };
    (1..=16).for_each(|n| {
        tuner.arrived(at(25 * n), 1_000 * n, 1_000);
        tuner.judge(at(25 * n), &path, 1_000 * n);
    });
    assert_eq!(tuner.poll_advice().map(|advice| advice.reason), Some(Reason::Filling));
    tuner.set_rate(Rate::from_kbps(300));
    let mut told = Vec::new();
    for n in 17..=120 {
        tuner.arrived(at(25 * n), 1_000, 1_000);
        tuner.judge(at(25 * n), &dumbbell(), 1_000);
        if let Some(advice) = tuner.poll_advice().filter(|advice| advice.reason == Reason::Room) {
            tuner.set_rate(advice.rate);
            told.push((advice.at, advice.rate.as_bps() / 100));
        }
    }
    // 320 kbit/s were too much. After an eighth more has gone well, a quarter more follows after two round trips again,
    // which is not used.
    assert_eq!(told, [(at(1_025), 3_600), (at(1_350), 4_500)]);
}

#[test]
fn nobody_is_told_of_room_while_the_path_itself_has_a_queue() {
    let mut tuner = tuner(Settings::default());
    let path = PathState { srtt: Some(Duration::from_millis(226)), ..dumbbell() };
    for n in 1..=200 {
        tuner.arrived(at(25 * n), 1_000, 1_000);
        tuner.judge(at(25 * n), &path, 1_000);
    }
    assert_eq!(tuner.poll_advice(), None);
}

#[test]
fn as_the_paper_has_it_nobody_is_told_of_room() {
    let mut tuner = tuner(Settings::PAPER);
    for n in 1..=200 {
        tuner.arrived(at(25 * n), 1_000, 1_000);
        tuner.judge(at(25 * n), &dumbbell(), 1_000);
    }
    assert_eq!(tuner.poll_advice(), None);
}

/// Policy for a stream of 100-byte packets at 32 kbit/s: `Min_Th` is 600 bytes.
fn small(settings: Settings, marking: Marking) -> Dbat {
    let mut dbat = Dbat::new(settings, marking);
    dbat.set_rate(Rate::from_kbps(32));
    dbat
}

fn average(choice: &mut dyn LateChoice) -> u64 {
    choice.adviser().expect("DBAT speaks with its source").state().average
}

/// Queue of packets handed over every 25 ms; those at `marked` have the highest priority, the others the lowest.
fn waiting(packets: u64, marked: &[u64]) -> TestQueue {
    let mut queue = TestQueue::default();
    for n in 0..packets {
        queue.push(|meta| {
            meta.enqueued = at(25 * (n + 1));
            meta.priority = if marked.contains(&n) { Priority::HIGHEST } else { Priority::LOWEST };
        });
    }
    queue
}

#[test]
fn one_look_at_many_arrivals_is_as_many_looks() {
    let mut dbat = small(Settings::PAPER, Marking::default());
    let mut seldom = waiting(18, &[]);
    dbat.choose(at(450), &dumbbell(), &mut seldom);
    let mut tuner = tuner(Settings::PAPER);
    (1..=18).for_each(|n| _ = stuck(&mut tuner, n));
    assert_eq!(dbat.state().average, tuner.average() / 10);
    assert_eq!(seldom.left().len(), 18, "1163 bytes on average, and 1200 may be");
    // A second look counts nothing again.
    dbat.choose(at(451), &dumbbell(), &mut seldom);
    assert_eq!(dbat.state().average, tuner.average() / 10);
}

#[test]
fn a_late_look_is_no_pause() {
    let averages = [505, 5_000].map(|look| {
        let mut dbat = small(Settings::PAPER, Marking::default());
        dbat.choose(at(375), &dumbbell(), &mut waiting(15, &[]));
        let mut queue = TestQueue::default();
        queue.push(|meta| meta.enqueued = at(500));
        dbat.choose(at(look), &dumbbell(), &mut queue);
        dbat.state().average
    });
    assert_eq!(averages[0], averages[1], "the packet came at 500 ms, whenever it is looked at");
    assert!(averages[0] > 400, "{averages:?}");
}

#[test]
fn beyond_the_second_threshold_only_marked_packets_go() {
    let mut dbat = small(Settings::PAPER, Marking::default());
    let mut queue = waiting(19, &[3, 4, 9]);
    dbat.choose(at(475), &dumbbell(), &mut queue);
    assert_eq!(
        queue.left()[..4],
        [3, 4, 5, 6],
        "what would leave before the marked one is given up, the rest may wait"
    );
    assert_eq!(queue.reason(2), Some(DropReason::Policy));
    // The two marked packets are sent, and no new ones come.
    for sent in [3, 4] {
        queue.drop_at(sent, DropReason::Withdrawn);
    }
    dbat.choose(at(480), &dumbbell(), &mut queue);
    assert_eq!(queue.left()[..2], [9, 10]);
    queue.drop_at(9, DropReason::Withdrawn);
    dbat.choose(at(485), &dumbbell(), &mut queue);
    assert_eq!(queue.left(), [], "none is marked any more");
}

#[test]
fn where_all_are_marked_none_is_given_up() {
    let mut dbat = small(Settings::PAPER, Marking::Priority(Priority::LOWEST));
    let mut queue = waiting(64, &[]);
    dbat.choose(at(1_600), &dumbbell(), &mut queue);
    assert_eq!(queue.left().len(), 64);
    assert_eq!(dbat.poll_advice().map(|advice| advice.reason), Some(Reason::Overfull));
}

#[test]
fn the_excess_goes_oldest_first_down_to_the_second_threshold() {
    let settings = Settings { beyond: DropRule::Excess, ..Settings::PAPER };
    let mut dbat = small(settings, Marking::default());
    let mut queue = waiting(20, &[1, 4]);
    dbat.choose(at(500), &dumbbell(), &mut queue);
    assert_eq!(queue.left(), [1, 4, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19], "1200 bytes");
}

#[test]
fn the_excess_ends_with_a_frame() {
    let settings = Settings { beyond: DropRule::Excess, ..Settings::PAPER };
    let mut dbat = small(settings, Marking::default());
    let mut queue = waiting(20, &[]);
    for n in 5..11 {
        queue.meta_mut(n).frame = FrameId(7);
    }
    dbat.choose(at(500), &dumbbell(), &mut queue);
    assert_eq!(
        queue.left(),
        [11, 12, 13, 14, 15, 16, 17, 18, 19],
        "eight are too much, and of the frame three more go"
    );
}

#[test]
fn what_is_expired_does_not_count_as_queued() {
    let dbat = small(Settings::PAPER, Marking::default());
    let mut queue = waiting(30, &[]);
    for n in 0..25 {
        queue.meta_mut(n).deadline = Some(at(700));
    }
    let mut chain = Chain::default().then(Deadlines).then(dbat);
    chain.choose(at(750), &dumbbell(), &mut queue);
    assert_eq!(queue.left(), [25, 26, 27, 28, 29]);
    assert!(average(&mut chain) < 500);
}

#[test]
fn what_refers_to_a_packet_given_up_goes_by_the_chain() {
    let dbat = small(Settings::PAPER, Marking::default());
    let mut queue = waiting(20, &[2, 5]);
    for (place, frame, references) in [(0, 1, [].as_slice()), (2, 2, &[]), (3, 3, &[1]), (4, 4, &[2])] {
        let meta = queue.meta_mut(place);
        meta.frame = FrameId(frame);
        for &reference in references {
            assert!(meta.references.push(FrameId(reference)));
        }
    }
    let mut chain = Chain::default().then(dbat).then(Dependencies::default());
    chain.choose(at(500), &dumbbell(), &mut queue);
    assert_eq!(queue.left()[..3], [2, 4, 5]);
    assert_eq!(queue.reason(3), Some(DropReason::ReferenceLost));
}

#[test]
fn the_policy_by_frame_stands_beside_it() {
    let dbat = small(Settings::PAPER, Marking::default());
    let mut queue = waiting(20, &[0, 10]);
    let mut chain = Chain::default().then(Frames::new(QueueLimit::Packets(2))).then(dbat);
    chain.choose(at(500), &dumbbell(), &mut queue);
    assert_eq!(queue.left(), [0, 10], "what the first gave up never counted for the second");
    assert!(average(&mut chain) < 100);
}

#[test]
fn where_nothing_leaves_the_source_is_told_at_the_same_time_and_nothing_is_given_up() {
    let mut dbat = small(Settings::PAPER, Marking::default());
    let (mut told, mut looks) = (Vec::new(), 0);
    for millis in 0..=750 {
        if dbat.poll_timeout().is_some_and(|due| due <= at(millis)) {
            let queue = waiting(millis / 25, &[]);
            looks += 1;
            dbat.watch(at(millis), &dumbbell(), &queue);
            told.extend(dbat.poll_advice().map(|advice| (millis, advice.reason)));
        }
    }
    // 400 and 550 ms if every arrival were checked at once; 37.5 ms is a quarter of the delay.
    assert_eq!(told, [(418, Reason::Filling), (569, Reason::Overfull), (720, Reason::Overfull)]);
    assert!(looks < 20, "{looks} looks");
}

#[test]
fn a_watched_queue_is_without_what_has_expired() {
    let mut dbat = small(Settings::PAPER, Marking::default());
    let mut queue = waiting(30, &[]);
    for n in 0..25 {
        queue.meta_mut(n).deadline = Some(at(700));
    }
    dbat.watch(at(750), &dumbbell(), &queue);
    assert!(dbat.state().average < 500);
}

#[test]
fn a_rate_that_is_said_is_looked_at_at_once() {
    let mut dbat = Dbat::new(Settings::PAPER, Marking::default());
    let queue = waiting(19, &[]);
    dbat.watch(at(475), &dumbbell(), &queue);
    assert!(dbat.poll_timeout() > Some(at(475)));
    dbat.set_rate(Rate::from_kbps(32));
    assert!(dbat.poll_timeout() <= Some(at(475)));
}

#[test]
fn a_stream_that_does_not_say_its_rate_has_that_which_it_hands_over() {
    let mut dbat = Dbat::new(Settings { measure: true, ..Settings::PAPER }, Marking::default());
    let mut queue = waiting(40, &[]);
    dbat.choose(at(1_000), &dumbbell(), &mut queue);
    assert_eq!(dbat.state().stream, None, "975 ms from the first to the last");
    let mut queue = waiting(41, &[]);
    dbat.choose(at(1_025), &dumbbell(), &mut queue);
    assert_eq!(dbat.state().stream, Some(Rate::from_kbps(32)));
    assert_eq!(dbat.state().thresholds, Some(Thresholds { min: 600, max: 1_200 }));
    assert_eq!(queue.left(), [], "and beyond that only marked packets go");
}

#[test]
fn what_is_given_up_for_its_deadline_is_told_of_whatever_the_thresholds_say() {
    let run = |settings| {
        let mut chain = Chain::default().then(Deadlines).then(small(settings, Marking::default()));
        let mut queue = waiting(4, &[]);
        queue.meta_mut(0).deadline = Some(at(90));
        chain.choose(at(100), &dumbbell(), &mut queue);
        chain.adviser().and_then(|adviser| adviser.poll_advice())
    };
    let advice = run(Settings::default()).unwrap();
    assert_eq!((advice.reason, advice.rate), (Reason::Late, Rate::from_kbps(24)), "three quarters");
    assert!(advice.average < advice.thresholds.min);
    assert_eq!(run(Settings::PAPER), None);
}

#[test]
fn nobody_is_told_of_room_for_a_rate_that_is_not_used() {
    let mut tuner = tuner(Settings::default());
    for n in 1..=200 {
        tuner.arrived(at(25 * n), 1_000, 700);
        tuner.judge(at(25 * n), &dumbbell(), 1_000);
    }
    assert_eq!(tuner.poll_advice(), None, "224 of 320 kbit/s");
}
