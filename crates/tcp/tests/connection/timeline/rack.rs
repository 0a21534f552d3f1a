//! Loss detection by time (RFC 8985 §6).

use timeous_tcp::{Config, LossDetection};

use crate::script::{MS, RTT, Timeline, plain};

fn rack() -> Config {
    Config { loss_detection: LossDetection::Rack, ..plain() }
}

fn in_flight() -> Timeline {
    let mut line = Timeline::established(rack());
    line.write(10_000);
    line.take();
    line.pass(RTT);
    line
}

#[test]
fn one_segment_that_overtook_is_enough_after_a_quarter_of_a_round_trip() {
    let mut line = in_flight();
    line.ack(0, &[(1_000, 2_000)]);
    line.expect_data(&[]);
    line.pass(MS * 24);
    line.expect_data(&[]);
    line.pass(MS);
    line.expect_data(&[0]);
    assert!(line.connection.is_recovering());
}

#[test]
fn three_need_no_wait_as_long_as_nothing_was_reordered() {
    let mut line = in_flight();
    line.ack(0, &[(1_000, 2_000)]);
    line.ack(0, &[(1_000, 3_000)]);
    line.expect_data(&[]);
    line.ack(0, &[(1_000, 4_000)]);
    line.expect_data(&[0]);
}

#[test]
fn what_is_merely_under_way_is_not_repeated_in_a_recovery() {
    let mut line = in_flight();
    line.ack(0, &[(1_000, 5_000), (6_000, 10_000)]);
    line.expect_data(&[0, 5_000]);
    line.write(2_000);
    line.expect_data(&[10_000, 11_000]);
    line.pass(RTT);
    line.ack(5_000, &[(6_000, 10_000)]);
    assert!(line.connection.is_recovering());
    line.expect_data(&[]);
}

#[test]
fn after_reordering_was_seen_a_segment_has_a_quarter_of_a_round_trip_to_come() {
    let mut line = in_flight();
    line.ack(0, &[(1_000, 3_000)]);
    line.ack(3_000, &[]);
    assert_eq!(line.connection.statistics().retransmissions, 0);
    line.ack(3_000, &[(4_000, 10_000)]);
    line.expect_data(&[]);
    line.pass(MS * 20);
    line.ack(10_000, &[]);
    assert_eq!(line.connection.statistics().retransmissions, 0, "it was late, not lost");
    line.write(10_000);
    line.take();
    line.pass(RTT);
    line.ack(10_000, &[(11_000, 20_000)]);
    line.pass(MS * 25);
    line.expect_data(&[10_000]);
}

#[test]
fn the_loss_of_a_retransmission_is_found_without_the_timer() {
    let mut line = in_flight();
    line.ack(0, &[(1_000, 4_000)]);
    line.expect_data(&[0]);
    line.pass(MS);
    line.ack(0, &[(1_000, 10_000)]);
    line.write(5_000);
    line.expect_data(&[10_000, 11_000, 12_000, 13_000]);
    line.pass(RTT);
    // Data sent after the retransmission has arrived, and the retransmission has not.
    line.ack(0, &[(1_000, 11_000)]);
    // A second sign of congestion (RFC 5681 §4.3): the window of 5 segments is halved.
    assert_eq!((line.cwnd(), line.connection.outstanding()), (2_500, 3_000));
    line.ack(0, &[(1_000, 13_000)]);
    line.expect_data(&[0]);
    assert_eq!(line.connection.statistics().timeouts, 0);
}

#[test]
fn a_duplicate_that_a_dsack_tells_of_widens_the_window() {
    let mut line = in_flight();
    line.ack(0, &[(1_000, 4_000)]);
    line.expect_data(&[0]);
    line.pass(MS);
    line.ack(10_000, &[(0, 1_000)]);
    assert!(!line.connection.is_recovering());
    line.write(10_000);
    line.take();
    line.pass(RTT);
    line.ack(10_000, &[(11_000, 12_000)]);
    line.expect_data(&[15_000]);
    line.pass(MS * 49);
    line.expect_data(&[]);
    line.pass(MS);
    line.expect_data(&[10_000]);
}

#[test]
fn what_left_a_short_while_before_a_timeout_is_not_taken_for_lost_by_it() {
    let mut line = Timeline::established(rack());
    line.write(2_000);
    line.take();
    line.pass(MS * 250);
    line.write(1_000);
    line.expect_data(&[2_000]);
    line.pass(MS * 60);
    line.expect_data(&[0]);
    // 0 and 1000 are lost, 2000 is in flight (RFC 8985 §6.3).
    assert_eq!(line.connection.outstanding(), 2_000);
    line.ack(1_000, &[]);
    line.expect_data(&[1_000]);
    line.ack(3_000, &[]);
    assert_eq!(line.connection.statistics().retransmissions, 2);
}

#[test]
fn a_segment_that_is_lost_with_its_probe_is_found_lost() {
    let mut line = Timeline::established(Config { tail_loss_probe: true, ..rack() });
    line.write(2_000);
    line.take();
    line.pass(RTT * 2);
    line.expect_data(&[1_000]);
    line.ack(1_000, &[]);
    line.write(1_000);
    line.expect_data(&[2_000]);
    line.pass(RTT);
    line.ack(1_000, &[(2_000, 3_000)]);
    line.pass(MS * 25);
    // Both transmissions were sent before the data that has arrived.
    line.expect_data(&[1_000]);
    assert_eq!((line.connection.outstanding(), line.connection.statistics().timeouts), (1_000, 0));
}

#[test]
fn what_may_only_be_late_is_not_sent_again_for_want_of_new_data() {
    let mut line = in_flight();
    line.ack(0, &[(1_000, 2_000)]);
    line.ack(2_000, &[]);
    line.ack(2_000, &[(3_000, 10_000)]);
    line.pass(MS * 25);
    line.expect_data(&[2_000]);
    // Half of the 8000 that were in flight, of which 7000 had arrived (FlightSize, RFC 5681 §2).
    assert_eq!(line.cwnd(), 4_000);
    line.write(2_000);
    line.expect_data(&[10_000, 11_000]);
    line.pass(RTT);
    // Reordering was seen, so that RACK waits a quarter of a round trip for 10000.
    line.ack(2_000, &[(11_000, 12_000), (3_000, 10_000)]);
    line.expect_data(&[]);
    line.pass(MS * 20);
    line.ack(12_000, &[]);
    assert_eq!(line.connection.statistics().retransmissions, 1);
}
