//! Loss recovery without SACK (RFC 6582): each duplicate acknowledgement means that a segment arrived.

use timeous_tcp::Config;

use crate::script::{RTT, Timeline, plain};

fn in_flight() -> Timeline {
    let mut line = Timeline::established(Config { sack: false, ..plain() });
    line.write(100_000);
    line.expect_data(&[0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000]);
    line.pass(RTT);
    line
}

fn duplicates(line: &mut Timeline, count: u32) {
    for _ in 0..count {
        line.ack(line.peer_acks, &[]);
    }
}

#[test]
fn the_third_duplicate_repeats_the_first_segment_and_further_ones_let_new_data_go() {
    let mut line = in_flight();
    duplicates(&mut line, 2);
    line.expect_data(&[10_000, 11_000]);
    duplicates(&mut line, 1);
    line.expect_data(&[0]);
    assert_eq!(line.cwnd(), 5_000);
    duplicates(&mut line, 4);
    line.expect_data(&[]);
    // RFC 6582's window, ssthresh plus one segment for each of 8 duplicates, is one more than the 12 segments sent.
    duplicates(&mut line, 1);
    line.expect_data(&[12_000]);
    duplicates(&mut line, 3);
    line.expect_data(&[13_000, 14_000, 15_000]);
    line.ack(12_000, &[]);
    assert!(!line.connection.is_recovering(), "a full acknowledgement");
    assert_eq!((line.cwnd(), line.connection.outstanding()), (5_000, 5_000));
    line.expect_data(&[16_000]);
}

#[test]
fn a_partial_acknowledgement_repeats_the_next_segment_at_once() {
    let mut line = in_flight();
    // 0 and 5000 are lost.
    duplicates(&mut line, 10);
    line.expect_data(&[10_000, 11_000, 0, 12_000, 13_000, 14_000]);
    line.ack(5_000, &[]);
    // "deflate the congestion window by the amount of new data acknowledged … add back SMSS": 15 - 5 + 1 segments, and
    // 10 are in flight.
    line.expect_data(&[5_000, 15_000]);
    assert_eq!(line.connection.outstanding(), 5_000);
    assert!(line.connection.is_recovering());
    line.ack(12_000, &[]);
    assert!(!line.connection.is_recovering());
    let statistics = line.connection.statistics();
    assert_eq!((statistics.retransmissions, statistics.recoveries), (2, 1));
}

#[test]
fn only_the_first_partial_acknowledgement_puts_the_timer_off() {
    let mut line = in_flight();
    duplicates(&mut line, 3);
    line.take();
    // RTO of 300 ms after one RTT sample of 100 ± 50 ms; the timer restarted at the first retransmission.
    line.pass(RTT);
    line.ack(1_000, &[]);
    line.pass(RTT);
    line.ack(2_000, &[]);
    line.take();
    assert_eq!(line.connection.statistics().timeouts, 0);
    line.pass(RTT * 2 - RTT / 4);
    assert_eq!(line.connection.statistics().timeouts, 0);
    line.pass(RTT * 2);
    assert_eq!(line.connection.statistics().timeouts, 1);
}

#[test]
fn duplicates_after_a_timeout_begin_no_recovery_before_everything_sent_is_acknowledged() {
    let mut line = in_flight();
    line.pass(RTT * 3);
    line.expect_data(&[0]);
    duplicates(&mut line, 5);
    assert!(!line.connection.is_recovering(), "RFC 6582 §3.2, step 1");
    line.expect_data(&[]);
    line.ack(1_000, &[]);
    line.expect_data(&[1_000, 2_000]);
    line.ack(10_000, &[]);
    line.take();
    duplicates(&mut line, 3);
    assert!(line.connection.is_recovering());
    line.expect_data(&[13_000, 14_000, 10_000]);
}

#[test]
fn what_changes_the_window_or_brings_data_is_no_duplicate() {
    let mut line = in_flight();
    for window in [50_000, 51_000, 52_000, 53_000] {
        line.window = window;
        line.ack(0, &[]);
    }
    for _ in 0..4 {
        line.data(b"data", timeous_tcp::Flags::NONE, Default::default());
    }
    assert!(!line.connection.is_recovering());
    line.expect_data(&[]);
}
