//! Tests of the numbered steps of RFC 5348 §5 and §6, scripted; and of loss events against a simple model.
//!
//! | RFC 5348 | what has a number | test, or where |
//! |---|---|---|
//! | §5.1 | NDUPACK: three later packets; marks; late packets | `section_5_1_…` (nine) |
//! | §5.2 | `T_loss`, interpolated | `section_5_2_times_of_lost_packets_…` |
//! | §5.2 | a round trip, the sender's | `section_5_2_losses_within_…`, `section_5_2_the_round_trip_…` |
//! | §5.3 | an interval is from first loss to first loss | `section_5_3_…` |
//! | §5.4 | eight intervals, weights 1, 1, 1, 1, 0.8, 0.6, 0.4, 0.2; the larger of two sums | `intervals/tests.rs` |
//! | §5.4 | `p = 1/I_mean` | `section_5_4_…` |
//! | §5.5 | `DF = 2 I_mean/I_0`, 0.25 at least; what was discounted stays so | `intervals/tests.rs` |
//! | §6.1 | an increase of p is told at once | `section_6_1_…` |
//! | §6.2 | once a round trip; R_m of then; nothing while nothing comes | `section_6_2_…` (four) |
//! | §6.3 | the first packet; before there is a round trip | `section_6_3_…` (two) |
//! | §6.3.1 | the first interval from X_recv; half a packet a round trip | `section_6_3_1_…` (two) |

use proptest::prelude::*;

use super::*;

const RTT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn packet(seq: u64) -> Arrival {
    Arrival { seq, bytes: 1_000, marked: false, rtt: Some(RTT) }
}

/// Receives a packet every 10 ms, each at ten times its number, except for lost ones; returns the feedback.
fn stream(receiver: &mut Receiver, numbers: std::ops::Range<u64>, lost: &[u64]) -> Vec<Feedback> {
    let mut told = Vec::new();
    for seq in numbers {
        told.extend(receiver.on_timeout(at(seq * 10)));
        if !lost.contains(&seq) {
            told.extend(receiver.on_packet(at(seq * 10), packet(seq)));
        }
    }
    told
}

fn lengths(receiver: &Receiver) -> Vec<u64> {
    receiver.intervals().lengths().map(|length| length.round() as u64).collect()
}

#[test]
fn section_5_1_three_later_packets_make_a_loss() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..13, &[10]);
    assert_eq!(receiver.loss_event_rate(), 0.0, "two came after it");
    let told = stream(&mut receiver, 13..14, &[]);
    assert_eq!(receiver.loss_events(), 1);
    assert!(told[0].new_loss_event && told[0].loss_event_rate > 0.0);
}

#[test]
fn section_5_1_reordering_by_less_than_three_is_no_loss() {
    let mut receiver = Receiver::new();
    for seq in [0, 3, 2, 1, 6, 4, 5, 8, 7] {
        let _ = receiver.on_packet(at(10 * seq), packet(seq));
    }
    assert_eq!(receiver.loss_events(), 0);
}

#[test]
fn section_5_1_packets_within_a_gap_count_for_those_below_them() {
    let mut receiver = Receiver::new();
    for seq in [0, 10, 5, 4] {
        let _ = receiver.on_packet(at(10), packet(seq));
    }
    // 10, 5 and 4 are after 3; 10 is after 6.
    assert_eq!((receiver.loss_events(), receiver.current_interval()), (1, 10), "from 1 to 10");
    for seq in [6, 7, 8, 9] {
        let _ = receiver.on_packet(at(11), packet(seq));
    }
    assert_eq!(receiver.current_interval(), 10);
}

#[test]
fn section_5_1_a_packet_that_comes_late_fills_its_hole() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..20, &[10]);
    assert_eq!(receiver.loss_events(), 1);
    let told = receiver.on_packet(at(195), packet(10)).expect("told at once: RFC 5348 §6");
    assert_eq!((told.loss_event_rate, told.new_loss_event, receiver.loss_events()), (0.0, false, 0));
}

#[test]
fn section_5_1_a_hole_that_is_filled_in_part_begins_later() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..20, &[10, 11]);
    assert_eq!(receiver.current_interval(), 10, "from 10 to 19");
    assert_eq!(receiver.on_packet(at(195), packet(10)), None);
    assert_eq!((receiver.loss_events(), receiver.current_interval()), (1, 9));
}

#[test]
fn section_5_1_a_filled_hole_makes_one_interval_of_two() {
    let (mut receiver, mut without) = (Receiver::new(), Receiver::new());
    stream(&mut receiver, 0..60, &[10, 30, 50]);
    stream(&mut without, 0..60, &[10, 50]);
    assert_eq!(lengths(&receiver)[..2], [20, 20]);
    let _ = receiver.on_packet(at(595), packet(30));
    assert_eq!(lengths(&receiver)[0], 40);
    assert_eq!(receiver.loss_event_rate(), without.loss_event_rate());
}

#[test]
fn section_5_1_what_is_found_late_can_join_events() {
    let mut receiver = Receiver::new();
    // 22 is more than a round trip after 10, but not after 15.
    stream(&mut receiver, 0..40, &[10, 15, 22]);
    assert_eq!(receiver.loss_events(), 2);
    let _ = receiver.on_packet(at(395), packet(10));
    assert_eq!((receiver.loss_events(), receiver.current_interval()), (1, 25), "from 15 to 39");
}

#[test]
fn section_5_1_a_mark_is_found_at_once_and_begins_with_what_is_missing_before_it() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..10, &[]);
    let marked = Arrival { marked: true, ..packet(10) };
    assert!(receiver.on_packet(at(100), marked).unwrap().new_loss_event);
    assert_eq!(receiver.current_interval(), 1, "RFC 5348 §5.3: S_A is S_C");
    // n - 1 is 29, n + 1 is 31, and n + 2 is marked.
    stream(&mut receiver, 11..32, &[30]);
    assert_eq!(receiver.loss_events(), 1);
    let _ = receiver.on_packet(at(320), Arrival { marked: true, ..packet(32) });
    assert_eq!((receiver.loss_events(), receiver.current_interval()), (2, 3));
}

#[test]
fn section_5_1_a_late_packet_that_is_marked_is_congestion_all_the_same() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..12, &[10]);
    let _ = receiver.on_packet(at(115), Arrival { marked: true, ..packet(10) });
    assert_eq!((receiver.loss_events(), receiver.current_interval()), (1, 2));
    stream(&mut receiver, 12..40, &[30]);
    let _ = receiver.on_packet(at(395), Arrival { marked: true, ..packet(30) });
    assert_eq!(receiver.loss_events(), 2, "lost already, and still a sign");
}

#[test]
fn section_5_2_losses_within_a_round_trip_are_one_event() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..30, &[10, 15, 20]);
    assert_eq!(receiver.loss_events(), 1, "T_old + R >= T_new: 100 + 100 >= 200");
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..30, &[10, 15, 21]);
    assert_eq!((receiver.loss_events(), lengths(&receiver)[0]), (2, 11));
}

#[test]
fn section_5_2_times_of_lost_packets_are_interpolated() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..10, &[]);
    // 10 to 59 are lost, and nominally 10 ms apart: events begin at 10, 21, 32, 43 and 54.
    stream(&mut receiver, 60..64, &[]);
    assert_eq!(receiver.loss_events(), 5);
    assert_eq!(lengths(&receiver)[..4], [11; 4]);
    assert_eq!(receiver.current_interval(), 63 - 54 + 1);
}

#[test]
fn section_5_2_the_round_trip_is_what_the_sender_says() {
    let mut receiver = Receiver::new();
    for seq in (0..40).filter(|seq| ![10, 15, 21].contains(seq)) {
        let rtt = Some(Duration::from_millis(40));
        let _ = receiver.on_packet(at(seq * 10), Arrival { rtt, ..packet(seq) });
    }
    assert_eq!(receiver.loss_events(), 3);
}

#[test]
fn section_5_3_the_size_of_intervals() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..100, &[20, 50]);
    assert_eq!(lengths(&receiver)[0], 30, "S_B - S_A");
    assert_eq!(receiver.current_interval(), 99 - 50 + 1, "S_C - S_A + 1");
}

#[test]
fn section_5_4_the_rate_is_that_of_the_average_interval() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..505, &[50, 100, 150, 200, 250, 300, 350, 400, 450]);
    assert_eq!(lengths(&receiver), [50; 8]);
    let _ = receiver.on_packet(at(5_050), packet(505));
    // I_0 is 56: 56 + 50 * 5, divided by a weight of 6.
    assert!((receiver.loss_event_rate() - 6.0 / 306.0).abs() < 1e-12);
}

#[test]
fn section_6_1_a_new_loss_event_is_told_at_once_and_one_of_old_is_not() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..52, &[]);
    let told = stream(&mut receiver, 52..58, &[53, 54]);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].new_loss_event && told[0].last == 57);
    let told = stream(&mut receiver, 58..68, &[59]);
    assert_eq!(told.len(), 1, "by the timer, 100 ms after: {told:?}");
    assert!(!told[0].new_loss_event, "59 belongs to the event of 53");
}

#[test]
fn section_6_2_feedback_comes_once_a_round_trip_with_the_rate_of_the_last() {
    let mut receiver = Receiver::new();
    let told = stream(&mut receiver, 0..101, &[]);
    assert_eq!(told.len(), 11, "the first, and ten round trips");
    // When the timer expires, the packet of the same instant has not come yet.
    assert_eq!(told[1].receive_rate, Rate::from_bytes_in(9_000, RTT));
    assert!(told[2..].iter().all(|told| told.receive_rate == Rate::from_bytes_in(10_000, RTT)));
    assert_eq!(told[1].delay, Duration::from_millis(10), "90 came 10 ms ago");
}

#[test]
fn section_6_2_early_feedback_goes_back_to_an_expiration_a_round_trip_ago() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..52, &[]);
    let told = stream(&mut receiver, 52..58, &[54]);
    // At 570 ms; the timer expired at 400 and at 500, and 17 packets (all but one) came since 400, including the one at 400.
    assert_eq!(told[0].last, 57);
    assert_eq!(told[0].receive_rate, Rate::from_bytes_in(17_000, Duration::from_millis(170)));
}

#[test]
fn section_6_2_silence_is_not_told_and_the_packet_after_it_is() {
    let mut receiver = Receiver::new();
    let told = stream(&mut receiver, 0..10, &[]);
    assert_eq!(told.len(), 1);
    assert!(receiver.on_timeout(at(100)).is_some());
    assert_eq!(receiver.on_timeout(at(200)), None);
    assert_eq!(receiver.poll_timeout(), None, "nothing will be due while nothing comes");
    let told = receiver.on_packet(at(5_000), packet(10)).expect("told at once");
    assert_eq!(told.receive_rate, Rate::from_bytes_in(1_000, RTT), "one packet a round trip is the least");
    assert_eq!(receiver.poll_timeout(), Some(at(5_100)));
}

#[test]
fn section_6_2_a_driver_that_is_late_changes_nothing() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..1, &[]);
    let told = receiver.on_packet(at(5_000), packet(1)).expect("the timer had expired");
    assert_eq!(told.receive_rate, Rate::from_bytes_in(1_000, RTT));
}

#[test]
fn section_6_3_the_first_packet_is_answered_with_nothing() {
    let mut receiver = Receiver::new();
    let told = receiver.on_packet(at(7), packet(5)).unwrap();
    assert_eq!((told.last, told.receive_rate, told.loss_event_rate), (5, Rate::ZERO, 0.0));
    assert_eq!(receiver.poll_timeout(), Some(at(7) + RTT), "R_i");
}

#[test]
fn section_6_3_without_a_round_trip_each_packet_is_answered() {
    let mut receiver = Receiver::new();
    for seq in 0..5 {
        assert!(receiver.on_packet(at(seq * 10), Arrival { rtt: None, ..packet(seq) }).is_some(), "{seq}");
    }
    assert!(receiver.on_packet(at(50), packet(5)).is_none(), "this one tells it");
    assert!(receiver.on_packet(at(60), packet(6)).is_none());
}

#[test]
fn section_6_3_1_the_first_interval_gives_half_of_what_was_sent() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 0..104, &[100]);
    // The receive rate was ten packets per round trip.
    let x = equation::rate(1_000, RTT, receiver.loss_event_rate()).as_bps() as f64;
    let target = Rate::from_bytes_in(10_000, RTT).as_bps() as f64;
    assert!((x / target - 1.0).abs() < 0.05, "{x} for {target}");
}

#[test]
fn section_6_3_1_the_first_packet_lost_or_marked_leaves_half_a_packet_a_round_trip() {
    let mut marked = Receiver::new();
    let told = marked.on_packet(at(0), Arrival { marked: true, ..packet(0) }).unwrap();
    assert!((1.0 / told.loss_event_rate - 4.844_283).abs() < 1e-3);
    let mut lost = Receiver::expecting(0);
    stream(&mut lost, 1..4, &[]);
    assert_eq!(lost.loss_events(), 1);
    let x = equation::rate(1_000, RTT, lost.loss_event_rate());
    assert!(x.bytes_in(RTT).abs_diff(500) < 25, "{x}");
    let mut whole = Receiver::expecting(1);
    stream(&mut whole, 1..4, &[]);
    assert_eq!(whole.loss_events(), 0);
}

#[test]
fn duplicates_and_packets_from_before_the_first_change_nothing() {
    let mut receiver = Receiver::new();
    stream(&mut receiver, 5..20, &[]);
    for seq in [5, 10, 19, 4, 0] {
        assert_eq!(receiver.on_packet(at(191), packet(seq)), None);
    }
    let told = receiver.on_timeout(at(250)).unwrap();
    assert_eq!(told.last, 19);
    assert_eq!(told.receive_rate, Rate::from_bytes_in(5_000, RTT), "15 to 19, since 150 ms");
}

#[test]
fn a_leap_of_the_numbers_costs_no_more_than_another_packet() {
    let mut receiver = Receiver::new();
    let mut now = at(0);
    for leap in [0, 1, 1 << 40, 1 << 41, 1 << 62, u64::MAX - 4, u64::MAX - 3, u64::MAX - 2, u64::MAX] {
        now += Duration::from_secs(1_000_000);
        let _ = receiver.on_packet(now, Arrival { rtt: Some(Duration::ZERO), ..packet(leap) });
    }
    let p = receiver.loss_event_rate();
    assert!(p > 0.0 && p <= 1.0);
    assert!(receiver.intervals().lengths().all(|length| length >= 1.0));
}

/// Loss events by a simple scan over all packets, 10 ms apart: the first packet of each.
fn reckoned(lost: &[bool]) -> Vec<u64> {
    let mut starts: Vec<u64> = Vec::new();
    for seq in (0..lost.len() as u64).filter(|&seq| lost[seq as usize]) {
        if starts.last().is_none_or(|start| (seq - start) * 10 > 100) {
            starts.push(seq);
        }
    }
    starts
}

proptest! {
    #[test]
    fn events_are_those_of_a_walk_over_all_packets(
        mut lost in prop::collection::vec(prop::bool::weighted(0.1), 4..300),
    ) {
        // The first packet arrives, and so do three at the end, so that all losses are detected.
        lost[0] = false;
        let arrived = lost.len() as u64;
        lost.extend([false; 3]);
        let mut receiver = Receiver::new();
        for seq in (0..arrived + 3).filter(|&seq| !lost[seq as usize]) {
            let _ = receiver.on_packet(at(seq * 10), packet(seq));
        }
        let starts = reckoned(&lost);
        prop_assert_eq!(receiver.loss_events(), starts.len() as u64);
        if let Some(last) = starts.last() {
            prop_assert_eq!(receiver.current_interval(), arrived + 3 - last);
            let spans: Vec<u64> = starts.windows(2).rev().map(|pair| pair[1] - pair[0]).take(8).collect();
            prop_assert_eq!(&lengths(&receiver)[..spans.len()], &spans[..]);
        }
    }

    #[test]
    fn what_comes_late_after_all_leaves_the_events_of_what_did_not(
        mut lost in prop::collection::vec(prop::bool::weighted(0.1), 4..120),
        late in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        lost[0] = false;
        let arrived = lost.len() as u64;
        lost.extend([false; 3]);
        let mut receiver = Receiver::new();
        for seq in (0..arrived + 3).filter(|&seq| !lost[seq as usize]) {
            let _ = receiver.on_packet(at(seq * 10), packet(seq));
        }
        // With more than nine events the oldest cannot be recomputed.
        prop_assume!(reckoned(&lost).len() <= 9);
        for late in late {
            let seq = late.index(arrived as usize);
            lost[seq] = false;
            let _ = receiver.on_packet(at(arrived * 10 + 30), packet(seq as u64));
        }
        let starts = reckoned(&lost);
        prop_assert_eq!(receiver.loss_events(), starts.len() as u64);
        prop_assert_eq!(receiver.loss_event_rate() > 0.0, !starts.is_empty());
        let spans: Vec<u64> = starts.windows(2).rev().map(|pair| pair[1] - pair[0]).take(8).collect();
        prop_assert_eq!(&lengths(&receiver)[..spans.len()], &spans[..]);
    }

    #[test]
    fn whatever_arrives_the_rate_is_a_share(
        arrivals in prop::collection::vec((0..64u64, any::<bool>(), prop::option::of(0..500u64), 0..300u64), 1..200),
    ) {
        let mut receiver = Receiver::expecting(8);
        let (mut now, mut base) = (at(0), 0);
        for (seq, marked, rtt, wait) in arrivals {
            now += Duration::from_millis(wait);
            base += seq / 8;
            let _ = receiver.on_timeout(now);
            let arrival = Arrival { seq: base + seq, bytes: 1_000, marked, rtt: rtt.map(Duration::from_millis) };
            if let Some(told) = receiver.on_packet(now, arrival) {
                prop_assert!((0.0..=1.0).contains(&told.loss_event_rate));
                prop_assert_eq!(told.loss_event_rate, receiver.loss_event_rate());
            }
            prop_assert_eq!(receiver.loss_event_rate() > 0.0, receiver.loss_events() > 0);
        }
    }
}
