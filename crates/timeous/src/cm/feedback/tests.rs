//! Property and scripted tests of feedback between receiver and sender.

use proptest::prelude::*;
use timeous_cm::{Loss, Update};
use timeous_core::{Duration, Instant};

use super::{Ack, Acks, Feedback, FeedbackError, MAX_RUNS, Run};

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Acknowledgement of a receiver that got these packets at time 0.
fn ack_of(numbers: &[u64]) -> Ack {
    let mut acks = Acks::default();
    for &number in numbers {
        acks.received(at(0), number);
    }
    acks.acknowledge(at(0)).unwrap()
}

/// A sender of packets of 100 bytes, one a millisecond from 0 on.
fn sent(count: u64) -> Feedback {
    let mut feedback = Feedback::default();
    for number in 0..count {
        assert_eq!(feedback.sent(at(number), 100), number);
    }
    feedback
}

fn says_nothing(update: Result<Option<Update>, FeedbackError>) -> bool {
    update.unwrap().is_none()
}

#[test]
fn every_other_packet_is_acknowledged_and_a_single_one_after_a_while() {
    let mut acks = Acks::default();
    acks.received(at(0), 0);
    assert_eq!((acks.poll_ack(at(19)), acks.poll_timeout()), (None, Some(at(20))));
    assert_eq!(acks.poll_ack(at(20)).unwrap().delay, ms(20));
    assert_eq!(acks.poll_timeout(), None);
    acks.received(at(30), 1);
    acks.received(at(31), 2);
    let ack = acks.poll_ack(at(31)).unwrap();
    assert_eq!((ack.newest, ack.delay, ack.runs), (2, ms(0), vec![Run { missing: 0, there: 3 }]));
}

#[test]
fn gaps_what_fills_them_and_marks_are_told_of_at_once() {
    let mut acks = Acks::every(100, ms(2_000));
    acks.received(at(0), 0);
    assert_eq!(acks.poll_ack(at(0)), None);
    acks.received(at(1), 2);
    let gap = acks.poll_ack(at(1)).unwrap();
    assert_eq!(gap.runs, [Run { missing: 0, there: 1 }, Run { missing: 1, there: 1 }]);
    acks.received(at(2), 1);
    assert_eq!(acks.poll_ack(at(2)).unwrap().runs, [Run { missing: 0, there: 3 }]);
    acks.received_marked(at(3), 3);
    assert_eq!(acks.poll_ack(at(3)).unwrap().marked, 1);
}

#[test]
fn what_comes_twice_is_new_once_and_told_again() {
    let mut acks = Acks::default();
    assert!(acks.received(at(0), 0));
    assert!(acks.poll_ack(at(20)).is_some());
    assert!(!acks.received(at(21), 0));
    assert!(acks.poll_ack(at(21)).is_some(), "its acknowledgement was lost, or it would not have come again");
}

#[test]
fn no_number_is_too_large_and_no_gap_too_wide() {
    let mut acks = Acks::default();
    acks.received(at(0), 0);
    assert!(!acks.received(at(0), u64::MAX));
    assert!(acks.received(at(0), 1 << 40));
    let ack = acks.acknowledge(at(0)).unwrap();
    assert_eq!((ack.newest, ack.runs.len()), (1 << 40, 1));
    assert_eq!(Ack::decode(&ack.encode()), Ok(ack));
}

#[test]
fn only_the_newest_runs_are_told_and_older_packets_are_not_new_again() {
    let mut acks = Acks::default();
    for n in 0..=MAX_RUNS as u64 {
        acks.received(at(n), 2 * n);
    }
    assert_eq!(acks.acknowledge(at(200)).unwrap().runs.len(), MAX_RUNS);
    assert!(!acks.received(at(201), 0));
    assert!(acks.received(at(201), 1), "between the oldest that is told and the floor");
}

#[test]
fn a_round_trip_is_that_of_the_newest_packet_without_what_the_receiver_waited() {
    let mut feedback = sent(4);
    let update = feedback.acked(at(50), &ack_of(&[0])).unwrap().unwrap();
    assert_eq!((update.acked, update.rtt), (100, Some(ms(50))));
    let late = Ack { delay: ms(20), ..ack_of(&[0, 1]) };
    assert_eq!(feedback.acked(at(81), &late).unwrap().unwrap().rtt, Some(ms(60)));
    let liar = Ack { delay: ms(2_000), ..ack_of(&[0, 1, 2]) };
    let update = feedback.acked(at(92), &liar).unwrap().unwrap();
    assert_eq!(update.rtt, Some(ms(50)), "no less than was seen");
    assert_eq!(feedback.outstanding(), 100);
}

#[test]
fn three_newer_packets_make_a_loss_and_two_do_not() {
    let mut feedback = sent(6);
    let update = feedback.acked(at(40), &ack_of(&[0, 3])).unwrap().unwrap();
    assert_eq!((update.acked, update.lost, update.loss), (200, 0, None));
    let update = feedback.acked(at(41), &ack_of(&[0, 3, 4])).unwrap().unwrap();
    assert_eq!((update.acked, update.lost, update.loss), (100, 100, Some((Loss::Transient, at(1)))));
    let update = feedback.acked(at(42), &ack_of(&[0, 2, 3, 4, 5])).unwrap().unwrap();
    assert_eq!((update.acked, update.lost, update.loss), (200, 0, None), "the second came after all");
    assert!(says_nothing(feedback.acked(at(43), &ack_of(&[0, 1, 2, 3, 4, 5]))), "what was given up stays so");
    assert_eq!(feedback.outstanding(), 0);
}

#[test]
fn a_lost_acknowledgement_is_made_good_by_the_next() {
    let mut feedback = sent(40);
    let numbers: Vec<u64> = (0..40).filter(|n| n % 4 != 1).collect();
    let update = feedback.acked(at(60), &ack_of(&numbers)).unwrap().unwrap();
    assert_eq!(update.acked, 3_000);
    assert_eq!(update.lost, 900, "packet 37 may still come");
}

#[test]
fn marks_are_congestion_without_loss_once_each() {
    let mut feedback = sent(3);
    let marked = Ack { marked: 1, ..ack_of(&[0, 1]) };
    let update = feedback.acked(at(40), &marked).unwrap().unwrap();
    assert_eq!((update.acked, update.lost, update.loss), (200, 0, Some((Loss::Ecn, at(1)))));
    let again = Ack { marked: 1, ..ack_of(&[0, 1, 2]) };
    assert_eq!(feedback.acked(at(41), &again).unwrap().unwrap().loss, None);
    let old = ack_of(&[0]);
    assert!(says_nothing(feedback.acked(at(42), &old)), "overtaken by newer ones");
}

#[test]
fn silence_loses_everything_and_is_borne_for_longer_the_next_time() {
    let mut feedback = sent(3);
    assert_eq!(feedback.poll_timeout(), Some(at(1_000)), "nothing is known of the path (RFC 6298 §2.1)");
    assert!(feedback.handle_timeout(at(999)).is_none());
    let update = feedback.handle_timeout(at(1_000)).unwrap();
    assert_eq!((update.lost, update.loss), (300, Some((Loss::Persistent, at(2)))));
    assert_eq!((feedback.outstanding(), feedback.poll_timeout()), (0, None));
    assert!(says_nothing(feedback.acked(at(1_001), &ack_of(&[0]))), "too late");
    assert_eq!(feedback.sent(at(1_002), 100), 3);
    assert_eq!(feedback.poll_timeout(), Some(at(3_002)));
    feedback.acked(at(1_040), &ack_of(&[3])).unwrap();
    feedback.sent(at(1_041), 100);
    assert!(feedback.poll_timeout().unwrap() < at(1_500), "38 ms, and room for an acknowledgement that waits");
}

#[test]
fn a_receiver_that_waits_on_purpose_is_waited_for() {
    let mut feedback = Feedback::with_ack_delay(ms(2_000));
    feedback.sent(at(0), 100);
    assert_eq!(feedback.poll_timeout(), Some(at(3_000)));
}

#[test]
fn what_was_not_sent_is_not_acknowledged() {
    let mut feedback = sent(2);
    let refused = feedback.acked(at(9), &ack_of(&[0, 1, 2])).unwrap_err();
    assert_eq!(refused, FeedbackError::NotSent { number: 2, sent: 2 });
    assert_eq!(feedback.outstanding(), 200);
}

#[test]
fn forgetting_goes_on_with_the_numbers() {
    let mut feedback = sent(2);
    feedback.forget();
    assert_eq!((feedback.outstanding(), feedback.poll_timeout(), feedback.next_number()), (0, None, 2));
    assert!(says_nothing(feedback.acked(at(9), &ack_of(&[0, 1]))));
}

proptest! {
    #[test]
    fn any_datagram_is_refused_or_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        if let Ok(ack) = Ack::decode(&bytes) {
            let _ = sent(5).acked(at(9), &ack);
        }
        let mut marked = bytes;
        if let Some(first) = marked.first_mut() {
            *first = 0xA5;
        }
        if let Ok(ack) = Ack::decode(&marked) {
            prop_assert_eq!(ack.encode(), marked);
            let _ = sent(5).acked(at(9), &ack);
        }
    }

    /// Whatever is lost, doubled, reordered or late, on either way: each byte is told of once, and those that came and
    /// were told of in time are told as arrived.
    #[test]
    fn every_byte_has_one_fate(events in proptest::collection::vec((0..4u8, 0..8u64), 1..300)) {
        let (mut feedback, mut acks) = (Feedback::default(), Acks::default());
        let mut forth: Vec<u64> = Vec::new();
        let mut back: Vec<Vec<u8>> = Vec::new();
        let (mut sent, mut acked, mut lost) = (0, 0, 0);
        let mut count = |update: Option<Update>| {
            if let Some(update) = update {
                acked += update.acked;
                lost += update.lost;
            }
        };
        let mut now = Instant::ZERO;
        for (event, which) in events {
            now += ms(which * 40);
            match event {
                0 | 1 => {
                    forth.push(feedback.sent(now, 100 + which));
                    sent += 100 + which;
                }
                2 if !forth.is_empty() => {
                    let number = forth[which as usize % forth.len()];
                    if which < 6 {
                        forth.retain(|&n| n != number);
                    }
                    if which < 5 {
                        acks.received(now, number);
                        back.extend(acks.poll_ack(now).map(|ack| ack.encode()));
                    }
                }
                3 if !back.is_empty() => {
                    let ack = back.remove(which as usize % back.len());
                    count(feedback.acked(now, &Ack::decode(&ack).unwrap()).unwrap());
                }
                _ => count(feedback.handle_timeout(now)),
            }
        }
        prop_assert_eq!(acked + lost + feedback.outstanding(), sent);
    }
}
