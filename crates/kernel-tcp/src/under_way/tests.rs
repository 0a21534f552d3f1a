//! Tests of the records given to the kernel: positions, expiry and release.

use timeous_core::{AduMeta, Copied, Duration};

use super::super::zone::Zone;
use super::*;

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn pulled(token: u64, deadline: u64) -> PulledAdu {
    let meta = AduMeta { deadline: Some(at(deadline)), ..AduMeta::default() };
    PulledAdu { token, len: 0, meta, apart: false, copy: Copied::First, is_fragment: false }
}

#[test]
fn what_lies_below_the_acknowledgement_is_acked_whole_records_only() {
    let mut records = UnderWay::default();
    for token in 0..3 {
        records.push(at(0), &pulled(token, 0), 100, None, false);
    }
    assert_eq!(records.pop_acked(199).unwrap().token, Some(0));
    assert_eq!(records.pop_acked(199), None);
    assert_eq!(records.pop_acked(300).unwrap().token, Some(1));
    assert_eq!(records.drain().collect::<Vec<_>>(), [2]);
}

#[test]
fn a_place_is_free_when_the_kernel_says_so_acknowledged_or_not() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    for send in 0..3 {
        records.push(at(0), &pulled(send.into(), 0), 100, zone.take().map(|slot| (send, slot)), false);
    }
    records.pop_acked(100);
    let mut free = 0;
    records.released(0, 1, |_| free += 1);
    assert_eq!(free, 2);
    assert!(records.has_send(2) && !records.has_send(1));
    records.released(u32::MAX, 1, |_| free += 1);
    assert_eq!(free, 2);
}

#[test]
fn each_deadline_passes_once_and_the_next_one_is_known() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    for (token, deadline) in [(0, 30), (1, 10), (2, 20)] {
        records.push(at(0), &pulled(token, deadline), 100, zone.take().map(|slot| (token as u32, slot)), false);
    }
    assert_eq!(records.next_deadline(), Some(at(10)));
    assert_eq!(records.take_useless(at(20), |_, _| false), (vec![1], 0));
    assert_eq!(records.next_deadline(), Some(at(20)));
    assert_eq!(records.take_useless(at(20), |_, _| false), (vec![], 0));
    assert_eq!(records.replace(1, Some(&pulled(7, 40))), Some(1));
    assert_eq!(records.take_useless(at(90), |_, meta| meta.deadline == Some(at(40))), (vec![0, 2], 0));
    assert_eq!(records.next_deadline(), Some(at(40)), "it is still of use, and asked for again");
    assert_eq!(records.take_useless(at(90), |_, _| false), (vec![1], 0));
    assert_eq!(records.next_deadline(), None);
}

/// Regression, found by `tcp-expired`: on a stalled path each datagram was reported as lost as soon as it had left, and datagrams that
/// refer to it were dropped.
#[test]
fn what_was_written_over_while_it_may_arrive_is_no_loss_yet() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    records.push(at(0), &pulled(7, 10), 100, zone.take().map(|slot| (0, slot)), false);
    let young = |record: &Record, _: &AduMeta| at(5) < record.given + Duration::from_millis(10);
    assert_eq!(records.take_useless(at(20), young), (vec![], 0));
    assert_eq!(records.take_useless(at(20), |_, _| false), (vec![0], 0));
    records.overwrite(0, 3);
    assert_eq!(
        records.pop_acked(100),
        Some(Arrived { token: Some(7), end: 100, overwritten: Some(3), boarded: false })
    );
}

/// Regression, found by `tcp-expired`: a datagram that a retransmission was delivering was reported as lost.
#[test]
fn what_is_late_for_another_repair_has_its_fate_when_it_is_acknowledged_and_is_missed_once() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    for (token, deadline) in [(7, 10), (8, 30)] {
        records.push(at(0), &pulled(token, deadline), 100, zone.take().map(|slot| (token as u32, slot)), false);
    }
    assert_eq!(records.take_useless(at(20), |_, _| false), (vec![0], 0));
    records.overwrite(0, 3);
    records.carries(0, Some(pulled(9, 30).meta));
    assert_eq!(records.take_useless(at(40), |_, _| false), (vec![0, 1], 0));
    records.overwrite(0, 4);
    assert_eq!(records.overdue(at(10)), []);
    assert_eq!(records.overdue(at(20)), [pulled(7, 10).meta], "that of the copy is another's");
    assert_eq!(records.overdue(at(20)), []);
    assert_eq!(
        records.pop_acked(100),
        Some(Arrived { token: Some(7), end: 100, overwritten: Some(3), boarded: false })
    );
    assert_eq!(records.overdue(at(90)), [pulled(8, 30).meta]);
}

#[test]
fn what_takes_the_place_of_another_is_missed_by_its_own_deadline() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    records.push(at(0), &pulled(0, 10), 100, zone.take().map(|slot| (0, slot)), false);
    records.replace(0, Some(&pulled(1, 40)));
    assert_eq!(records.overdue(at(20)), []);
    assert_eq!(records.overdue(at(50)), [pulled(1, 40).meta]);
}

#[test]
fn what_cannot_be_written_anew_is_counted_when_its_deadline_passes() {
    let mut records = UnderWay::default();
    records.push(at(0), &pulled(0, 10), 100, None, false);
    assert_eq!(records.next_deadline(), Some(at(10)));
    assert_eq!(records.take_useless(at(11), |_, _| false), (vec![], 1));
    assert_eq!(records.take_useless(at(12), |_, _| false), (vec![], 0));
}

#[test]
fn a_copy_goes_stale_where_it_lies_and_what_left_first_there_is_still_known() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    records.push(at(0), &pulled(0, 10), 100, zone.take().map(|slot| (0, slot)), false);
    assert_eq!(records.take_useless(at(20), |_, _| false), (vec![0], 0));
    records.change(0, vec![1], None, 0);
    records.replace(0, None);
    records.carries(0, Some(pulled(1, 30).meta));
    assert_eq!(records.take_useless(at(40), |_, _| false), (vec![0], 0));
    records.change(0, vec![2], None, 0);
    assert_eq!(records.go_back(0, 0), Some(vec![1]));
}

/// Regression, found by `tl-middleboxes --real`: if only the first of two records in a segment is replaced, a middlebox drops the other one
/// with each retransmission, until the connection fails.
#[test]
fn what_left_in_one_segment_goes_back_together() {
    let mut zone = Zone::new(100).unwrap();
    let records = two_have_left(&mut zone);
    assert_eq!([100, 200, 201, 1_000].map(|mss| records.beside_first(mss)), [1, 2, 3, 3]);
    assert_eq!(UnderWay::default().beside_first(100), 0);
    let mut records = UnderWay::default();
    for token in 0..2 {
        records.push(at(0), &pulled(token, 10), 100, zone.take().map(|slot| (token as u32, slot)), false);
    }
    records.change(1, vec![1], None, 2);
    assert_eq!([100, 200].map(|mss| records.timeouts_since_change(3, mss)), [0, 1], "the second alone was changed");
}

/// Regression, found by `timeous-soak`: such a datagram was reported as dropped when it expired.
#[test]
fn what_lies_in_another_place_as_well_may_have_left_from_there_until_another_takes_its_own() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    records.push(at(0), &pulled(0, 0), 100, None, true);
    records.push(at(0), &pulled(1, 0), 100, zone.take().map(|slot| (0, slot)), false);
    records.push(at(0), &pulled(2, 0), 100, zone.take().map(|slot| (1, slot)), false);
    assert!(records.copy_first_fresh(100, 100).is_some());
    assert_eq!([0, 1, 2].map(|place| records.is_copied(place, 0)), [true, true, false]);
    records.replace(1, Some(&pulled(3, 0)));
    assert!(!records.is_copied(1, 0));
}

/// Three records of 100 bytes: the first two were sent, and the first was replaced.
fn two_have_left(zone: &mut Zone) -> UnderWay {
    let mut records = UnderWay::default();
    for (token, deadline) in [(0, 10), (1, 50), (2, 50)] {
        records.push(at(0), &pulled(token, deadline), 100, zone.take().map(|slot| (token as u32, slot)), false);
    }
    assert_eq!(records.take_useless(at(20), |_, _| false), (vec![0], 0));
    records.change(0, vec![1], None, 2);
    records.overwrite(0, 3);
    records
}

#[test]
fn what_has_left_and_is_of_no_use_takes_a_copy_of_what_is_next_to_leave() {
    let mut records = two_have_left(&mut Zone::new(100).unwrap());
    assert_eq!(records.vacant(9), [(0, None)]);
    let fresh = records.first_fresh(200).unwrap();
    let guest = Guest { of: records.record(fresh).token.unwrap(), until: at(50) };
    assert_eq!(guest.of, 2);
    records.lends(fresh, 4);
    records.lend(0, Some(guest));
    assert_eq!(records.guests_of(fresh), [0]);
    // It has not been sent, unless a retransmission happened.
    assert_eq!([4, 5].map(|retransmitted| records.is_copied(fresh, retransmitted)), [false, true]);
    assert_eq!(records.vacant(9), [(0, Some(guest))]);
    assert_eq!(records.next_deadline(), Some(at(50)));
    assert_eq!(records.first_fresh(300), None, "nothing waits");
}

#[test]
fn a_datagram_that_has_left_in_the_place_of_another_is_acknowledged_there() {
    let mut records = two_have_left(&mut Zone::new(100).unwrap());
    assert_eq!(records.replace(0, None), Some(0));
    records.board(2, 0);
    assert!(records.is_boarded(0) && records.vacant(9).is_empty());
    assert_eq!(records.first_fresh(200), None, "its own place is nobody's");
    records.replace(2, Some(&pulled(3, 70)));
    let arrived = std::iter::from_fn(|| records.pop_acked(300)).map(|arrived| (arrived.token, arrived.boarded));
    assert_eq!(arrived.collect::<Vec<_>>(), [(Some(2), true), (Some(1), false), (Some(3), false)]);
}

#[test]
fn timeouts_count_from_the_change() {
    let records = two_have_left(&mut Zone::new(100).unwrap());
    assert_eq!([2, 3, 1].map(|timeouts| records.timeouts_since_change(timeouts, 100)), [0, 1, 1]);
}

#[test]
fn padding_that_has_not_left_can_still_make_way() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    records.push(at(0), &pulled(0, 10), 100, zone.take().map(|slot| (0, slot)), false);
    assert_eq!(records.last_padding(), None);
    assert_eq!(records.take_useless(at(20), |_, _| false), (vec![0], 0));
    records.replace(0, None);
    assert_eq!(records.last_padding(), Some(0));
    records.change(0, vec![1], None, 0);
    assert_eq!(records.last_padding(), None, "it has left");
}

#[test]
fn a_record_of_which_the_peer_has_the_front_was_cut_on_its_way() {
    let mut zone = Zone::new(100).unwrap();
    let mut records = UnderWay::default();
    records.push(at(0), &pulled(0, 10), 100, zone.take().map(|slot| (0, slot)), false);
    assert_eq!([0, 1, 99, 100].map(|acked| records.cut(acked, 100, 100)), [None, Some(0), Some(0), None]);
    assert_eq!(records.cut(50, 99, 100), None, "not all of it has left");
    assert_eq!(records.cut(50, 100, 99), None, "it left as two segments");
}
