//! Bundling: segments of thin streams repeat the previous data (Evensen et al. 2008), and losses that this hides are found by missing
//! DSACKs (RFC 2883).

use timeous_core::Duration;
use timeous_tcp::{Config, EcnMode, Flags, LossDetection};

use crate::script::{MS, RTT, Timeline, plain};

/// Interval of writes: three or four segments are in flight.
const EVERY: Duration = Duration::from_millis(30);

fn bundling() -> Config {
    Config { bundling: true, loss_detection: LossDetection::Rack, ..plain() }
}

/// Writes `bytes` bytes, which leave in one segment; returns the offset and length of its data.
#[track_caller]
fn say(line: &mut Timeline, bytes: usize) -> (u32, usize) {
    line.write(bytes);
    let left = line.take();
    assert_eq!(left.len(), 1, "{left:?}");
    (left[0].offset(), left[0].payload.len())
}

/// Three segments of 200 bytes, 30 ms apart: 0, 200 and 400; the latter two carry the previous data, too.
#[track_caller]
fn three() -> Timeline {
    three_by(bundling())
}

#[track_caller]
fn three_by(config: Config) -> Timeline {
    let mut line = Timeline::established(config);
    for expected in [(0, 200), (0, 400), (200, 400)] {
        assert_eq!(say(&mut line, 200), expected);
        line.pass(EVERY);
    }
    line
}

#[test]
fn a_segment_of_a_thin_stream_carries_the_one_before_and_both_are_under_way() {
    let mut line = three();
    assert_eq!(line.connection.outstanding(), 1_000);
    line.pass(MS * 10);
    // The first segment arrived; its second copy is still in flight.
    line.ack(200, &[]);
    assert_eq!(line.connection.outstanding(), 800);
    line.pass(EVERY);
    line.ack(400, &[(0, 200)]);
    assert_eq!(line.connection.outstanding(), 400);
    line.pass(EVERY);
    line.ack(600, &[(200, 400)]);
    assert_eq!(line.connection.outstanding(), 0);
    let statistics = line.connection.statistics();
    assert_eq!((statistics.bundles, statistics.bytes_bundled, statistics.bytes_sent), (2, 400, 600));
    assert_eq!((statistics.hidden_losses, statistics.retransmissions), (0, 0));
    assert!(line.cwnd() >= 10_000, "nothing was lost");
}

#[test]
fn nothing_is_sent_more_than_twice_that_way() {
    let mut line = three();
    line.pass(MS * 10);
    line.ack(200, &[]);
    assert_eq!(say(&mut line, 200), (400, 400), "and not from 0 or 200");
}

#[test]
fn a_loss_that_the_next_segment_repairs_lowers_the_window_once_in_a_window() {
    let config = Config { ecn: EcnMode::Request, ..bundling() };
    let mut line = three_by(config);
    line.pass(MS * 40);
    // 0 was lost, and its data came with 200: no DSACK.
    line.ack(400, &[]);
    assert_eq!(line.connection.statistics().hidden_losses, 1);
    assert_eq!(line.cwnd(), 2_000, "RFC 5681 §3.1: two segments, or half of what was under way");
    assert_eq!((line.connection.statistics().recoveries, line.connection.outstanding()), (0, 400));
    assert!(!line.connection.is_recovering(), "there is nothing to repair");
    line.write(200);
    let next = line.take();
    assert!(next[0].has(Flags::CWR), "for any reason (RFC 3168 §6.1.2)");
    assert_eq!((next[0].offset(), next[0].payload.len()), (400, 400));
    // 200 is of the same window; 400, which also came with 600, is reported by a DSACK.
    line.pass(EVERY);
    line.ack(600, &[]);
    assert_eq!(line.connection.statistics().hidden_losses, 1, "200 had come with what carried 0");
    line.ack(800, &[(400, 600)]);
    line.write(200);
    assert!(!line.take()[0].has(Flags::CWR));
    line.pass(RTT);
    line.write(200);
    line.pass(RTT);
    // 800 was sent after the reduction. It was lost, too, and its data came with 1000.
    line.ack(1_200, &[]);
    assert_eq!(line.connection.statistics().hidden_losses, 2);
    line.take();
    line.write(200);
    assert!(line.take()[0].has(Flags::CWR), "another window, another answer");
}

#[test]
fn losses_of_one_window_are_answered_once() {
    let config = Config { ecn: EcnMode::Request, ..bundling() };
    let mut line = three_by(config);
    // 0 and 400 are lost; 200 brings the data of 0, and the next segment that of 400.
    line.pass(MS * 40);
    line.ack(400, &[]);
    assert_eq!(say(&mut line, 200), (400, 400));
    line.pass(RTT);
    line.ack(800, &[]);
    assert_eq!(line.connection.statistics().hidden_losses, 2);
    assert_eq!(line.cwnd(), 2_000);
    line.write(200);
    assert!(!line.take()[0].has(Flags::CWR), "400 left before the answer");
}

#[test]
fn what_is_lost_with_its_second_copy_is_repaired_as_ever() {
    let mut line = three();
    line.pass(MS * 40);
    // 0 is lost, and 200, which carried it; 400 brings the data of 200.
    line.ack(0, &[(200, 600)]);
    assert_eq!(line.connection.statistics().hidden_losses, 1);
    assert_eq!((line.cwnd(), line.connection.outstanding()), (2_000, 200));
    line.pass(MS * 25);
    line.expect_data(&[0]);
    assert!(line.connection.is_recovering());
    line.pass(RTT);
    line.ack(600, &[]);
    assert_eq!((line.connection.outstanding(), line.cwnd()), (0, 2_000), "one window, one answer");
    let statistics = line.connection.statistics();
    assert_eq!((statistics.retransmissions, statistics.bytes_retransmitted), (1, 200), "without what it had carried");
}

#[test]
fn a_carrier_that_is_lost_takes_what_it_carried_out_of_what_is_under_way() {
    let mut line = three();
    line.pass(MS * 10);
    line.ack(200, &[]);
    line.pass(MS * 60);
    assert_eq!(line.connection.outstanding(), 800);
    // 200 is lost, and 400, which carried it. 600, which carries 400, arrives.
    assert_eq!(say(&mut line, 200), (400, 400));
    line.pass(RTT);
    line.ack(200, &[(400, 800)]);
    line.pass(MS * 25);
    line.expect_data(&[200]);
    assert_eq!(line.connection.outstanding(), 200);
    line.pass(RTT);
    line.ack(800, &[]);
    assert_eq!(line.connection.outstanding(), 0);
    assert_eq!(line.connection.statistics().hidden_losses, 1, "400; that 200 was lost is known otherwise");
}

#[test]
fn a_second_copy_that_is_told_of_is_no_sign_of_a_window_that_is_too_small() {
    let mut line = three();
    line.pass(MS * 10);
    for (ack, duplicate) in [(200, None), (400, Some((0, 200))), (600, Some((200, 400)))] {
        line.ack(ack, duplicate.as_slice());
        line.pass(EVERY);
    }
    line.write(10_000);
    line.take();
    line.pass(RTT);
    line.ack(600, &[(1_600, 2_600)]);
    line.pass(MS * 24);
    line.expect_data(&[]);
    line.pass(MS);
    // A quarter of a round trip, as without the duplicate (RFC 8985 §6.2, step 4).
    line.expect_data(&[600]);
}

#[test]
fn what_came_with_the_next_segment_shows_no_round_trip() {
    let mut line = Timeline::established(bundling());
    let srtt = |line: &Timeline| line.cm.query(line.connection.flow().unwrap()).unwrap().srtt;
    for _ in 0..2 {
        say(&mut line, 200);
        line.pass(EVERY);
    }
    line.pass(MS * 70);
    line.ack(400, &[]);
    assert_eq!(srtt(&line), Some(RTT), "130 ms after 0 left, which was lost, and 100 after what brought it");
}

#[test]
fn a_stream_of_many_segments_does_not_bundle() {
    let mut line = Timeline::established(bundling());
    for n in 0..20 {
        line.write(200);
        line.pass(MS * 5);
        let bundles = line.connection.statistics().bundles;
        assert_eq!(bundles, n.min(3), "with four under way");
    }
    let mut line = Timeline::established(bundling());
    line.write(100_500);
    for n in 1..=100 {
        line.pass(MS * 10);
        line.ack(n * 1_000, &[]);
    }
    assert_eq!((line.connection.statistics().bytes_sent, line.connection.statistics().bundles), (100_500, 0));
}

#[test]
fn what_the_window_has_no_room_for_beside_the_next_segment_is_not_bundled() {
    let mut line = three();
    line.pass(MS * 40);
    line.ack(400, &[]);
    line.ack(600, &[(200, 400)]);
    assert_eq!((line.cwnd(), line.connection.outstanding()), (2_000, 0));
    assert_eq!(say(&mut line, 400), (600, 400));
    line.pass(EVERY);
    assert_eq!(say(&mut line, 400), (600, 800));
    line.pass(EVERY);
    assert_eq!(say(&mut line, 400), (1_400, 400), "there is room for 800, of which 400 are for the next");
    line.pass(EVERY);
    assert_eq!(say(&mut line, 400), (1_800, 400), "which leaves at once");
    assert_eq!(line.connection.outstanding(), 2_000);
}

#[test]
fn what_waits_has_the_window_before_what_was_sent() {
    let mut line = Timeline::established(bundling());
    line.write(9_800);
    line.take();
    line.pass(RTT);
    line.ack(9_000, &[]);
    line.write(1_100);
    let left: Vec<_> = line.take().iter().map(|seen| (seen.offset(), seen.payload.len())).collect();
    assert_eq!(
        left,
        [(9_800, 1_000), (10_800, 100)],
        "a full segment has no room, and the last follows one that is too long"
    );
}

#[test]
fn a_peer_that_does_not_tell_of_duplicates_gets_no_bundles() {
    let mut line = Timeline::established(bundling());
    let mut sent = 0;
    for _ in 0..20 {
        say(&mut line, 200);
        sent += 200;
        line.pass(EVERY);
        if sent > 600 {
            line.ack(sent - 600, &[]);
        }
    }
    assert_eq!(line.connection.statistics().hidden_losses, 0, "each was acknowledged before its second copy was");
    // The fourth acknowledgement without a DSACK ends bundling; three bundles were in flight.
    assert_eq!(line.connection.statistics().bundles, 6);
}

#[test]
fn without_sack_nobody_would_tell_and_nothing_is_bundled() {
    let mut line = Timeline::established(Config { sack: false, ..bundling() });
    for n in 0..5 {
        assert_eq!(say(&mut line, 200), (200 * n, 200));
        line.pass(EVERY);
    }
}

#[test]
fn to_a_peer_that_waits_with_what_came_twice_bundles_leave_farther_apart() {
    let mut line = three();
    line.pass(MS * 40);
    // All three arrived, and the acknowledgement reports the latest duplicate only: 0 counts as lost.
    line.ack(600, &[(200, 400)]);
    assert_eq!((line.connection.statistics().hidden_losses, line.cwnd()), (1, 2_000));
    assert_eq!([say(&mut line, 200), say(&mut line, 200)], [(600, 200), (600, 400)]);
    line.pass(RTT);
    line.ack(800, &[]);
    assert_eq!(say(&mut line, 200), (800, 400));
    line.pass(EVERY);
    // The peer had 600 twice before this acknowledgement.
    line.ack(1_200, &[(800, 1_000)]);
    let each = [(); 4].map(|()| say(&mut line, 200));
    assert_eq!(each, [(1_200, 200), (1_200, 400), (1_600, 200), (1_400, 600)]);
    assert_eq!(line.connection.statistics().hidden_losses, 1);
}

#[test]
fn a_loss_is_found_if_the_peer_answers_only_when_the_next_duplicate_comes() {
    let mut line = three();
    line.pass(MS * 10);
    line.ack(200, &[]);
    assert_eq!(say(&mut line, 200), (400, 400));
    line.pass(EVERY);
    line.ack(400, &[(0, 200)]);
    // 400 was lost, and its data came in order with 600: the peer delays its acknowledgement. 800 brings 600 a second time.
    assert_eq!(say(&mut line, 200), (600, 400));
    line.pass(RTT);
    line.ack(1_000, &[(600, 800)]);
    assert_eq!((line.connection.statistics().hidden_losses, line.cwnd()), (1, 2_000));
    assert_eq!([say(&mut line, 200), say(&mut line, 200), say(&mut line, 200)].map(|(_, len)| len), [200, 400, 400]);
}
