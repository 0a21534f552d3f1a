//! Loss recovery on the scoreboard (RFC 6675), limited transmit (RFC 3042).

use timeous_tcp::Config;

use crate::script::{MSS, RTT, Timeline, plain};

/// Ten segments are in flight: the initial window.
fn in_flight(config: Config) -> Timeline {
    let mut line = Timeline::established(config);
    line.write(100_000);
    line.expect_data(&[0, 1_000, 2_000, 3_000, 4_000, 5_000, 6_000, 7_000, 8_000, 9_000]);
    line.pass(RTT);
    line
}

#[test]
fn limited_transmit_then_the_third_duplicate_begins_the_recovery() {
    let mut line = in_flight(plain());
    line.ack(0, &[(1_000, 2_000)]);
    line.expect_data(&[10_000]);
    line.ack(0, &[(1_000, 3_000)]);
    line.expect_data(&[11_000]);
    assert_eq!(line.cwnd(), 10_000, "RFC 3042: the window stays");
    line.ack(0, &[(1_000, 4_000)]);
    line.expect_data(&[0]);
    assert!(line.connection.is_recovering());
    assert_eq!(line.cwnd(), 5_000, "RFC 6675 §5 step 4.2, without what limited transmit sent");
    // pipe: 12 sent, 3 arrived, 1 lost and retransmitted.
    assert_eq!(line.connection.outstanding(), 9_000);
}

#[test]
fn pipe_says_when_more_may_leave_and_the_point_of_recovery_when_it_ends() {
    let mut line = in_flight(plain());
    line.ack(0, &[(1_000, 4_000)]);
    line.expect_data(&[0]);
    // FlightSize 10, 3 arrived, 1 lost and retransmitted: 7 in the pipe, 5 allowed.
    assert_eq!((line.connection.outstanding(), line.cwnd()), (7_000, 5_000));
    line.ack(0, &[(1_000, 5_000)]);
    line.ack(0, &[(1_000, 6_000)]);
    line.expect_data(&[]);
    line.ack(0, &[(1_000, 7_000)]);
    line.expect_data(&[10_000]);
    line.ack(0, &[(1_000, 8_000)]);
    line.expect_data(&[11_000]);
    // A partial acknowledgement: recovery continues.
    line.ack(8_000, &[]);
    assert!(line.connection.is_recovering());
    line.expect_data(&[12_000]);
    line.ack(10_000, &[]);
    assert!(!line.connection.is_recovering());
    assert_eq!(line.cwnd(), 5_000, "the acknowledgement that ends it does not open the window");
    line.expect_data(&[13_000, 14_000]);
}

#[test]
fn several_losses_of_one_window_are_one_event_and_are_repaired_in_one_round() {
    let mut line = in_flight(plain());
    // 0, 2000 and 4000 are missing; everything else arrives.
    line.ack(0, &[(1_000, 2_000)]);
    line.ack(0, &[(1_000, 2_000), (3_000, 4_000)]);
    line.take();
    line.ack(0, &[(5_000, 6_000), (1_000, 2_000), (3_000, 4_000)]);
    line.expect_data(&[0]);
    line.ack(0, &[(5_000, 7_000), (1_000, 2_000), (3_000, 4_000)]);
    line.ack(0, &[(5_000, 8_000), (1_000, 2_000), (3_000, 4_000)]);
    line.ack(0, &[(5_000, 9_000), (1_000, 2_000), (3_000, 4_000)]);
    line.ack(0, &[(5_000, 10_000), (1_000, 2_000), (3_000, 4_000)]);
    line.expect_data(&[2_000, 4_000]);
    assert_eq!(line.cwnd(), 5_000);
    line.ack(2_000, &[(3_000, 4_000), (5_000, 10_000)]);
    line.ack(4_000, &[(5_000, 10_000)]);
    line.ack(12_000, &[]);
    assert!(!line.connection.is_recovering());
    let statistics = line.connection.statistics();
    assert_eq!((statistics.retransmissions, statistics.recoveries, statistics.timeouts), (3, 1, 0));
}

#[test]
fn three_duplicates_of_small_segments_are_enough() {
    let mut line = Timeline::established(plain());
    for _ in 0..6 {
        line.write(10);
    }
    line.take();
    line.pass(RTT);
    line.ack(0, &[(10, 20)]);
    line.ack(0, &[(10, 30)]);
    line.expect_data(&[]);
    line.ack(0, &[(10, 40)]);
    line.expect_data(&[0]);
}

#[test]
fn duplicates_without_news_are_no_sign_of_loss() {
    let mut line = in_flight(plain());
    for _ in 0..5 {
        line.ack(0, &[]);
        line.ack(0, &[(1_000, 2_000)]);
    }
    line.expect_data(&[10_000]);
    assert!(!line.connection.is_recovering());
}

#[test]
fn with_nothing_new_to_send_the_doubtful_and_then_the_last_segment_leave_again() {
    let mut line = Timeline::established(plain());
    line.write(10_000);
    line.take();
    line.pass(RTT);
    // 0, 7000 and 9000 are missing.
    line.ack(0, &[(1_000, 4_000)]);
    line.expect_data(&[0]);
    line.ack(0, &[(1_000, 7_000)]);
    line.expect_data(&[]);
    line.ack(0, &[(8_000, 9_000), (1_000, 7_000)]);
    // One segment above it does not make a loss, but rule (3) of NextSeg retransmits it.
    line.expect_data(&[7_000]);
    line.ack(7_000, &[(8_000, 9_000)]);
    // Rule (4): nothing else is left, and the first retransmission was acknowledged.
    line.expect_data(&[9_000]);
    line.ack(9_000, &[]);
    line.expect_data(&[]);
    assert!(line.connection.is_recovering());
    line.ack(10_000, &[]);
    assert!(!line.connection.is_recovering());
    assert_eq!(line.connection.outstanding(), 0);
}

#[test]
fn what_was_sacked_is_not_sent_again_after_a_timeout() {
    let mut line = in_flight(plain());
    line.ack(0, &[(3_000, 5_000)]);
    line.take();
    line.pass(RTT * 5);
    line.expect_data(&[0]);
    for (ack, next) in [(1_000, &[1_000, 2_000][..]), (2_000, &[5_000, 6_000]), (5_000, &[7_000, 8_000])] {
        line.ack(ack, if ack < 5_000 { &[(3_000, 5_000)] } else { &[] });
        line.expect_data(next);
    }
}

#[test]
fn a_peer_that_drops_what_it_sacked_gets_it_again() {
    let mut line = Timeline::established(plain());
    line.write(3_000);
    line.take();
    line.ack(0, &[(1_000, 3_000)]);
    line.ack(1_000, &[]);
    // The peer sacked 1000 and dropped it later: the retransmission timer repairs that (RFC 2018 §8).
    line.pass(RTT * 10);
    assert!(line.take().iter().any(|seen| seen.offset() == 1_000));
    line.ack(2_000, &[]);
    line.ack(3_000, &[]);
    assert_eq!(line.connection.outstanding(), 0);
}

#[test]
fn sack_blocks_of_nonsense_change_nothing() {
    let mut line = in_flight(plain());
    for block in [(20_000, 30_000), (5_000, 4_000), (0_u32.wrapping_sub(5_000), 9_000), (500, 900), (9_500, 10_500)] {
        line.ack(0, &[block]);
    }
    assert_eq!(line.connection.outstanding(), 10 * u64::from(MSS));
    line.expect_data(&[]);
}
