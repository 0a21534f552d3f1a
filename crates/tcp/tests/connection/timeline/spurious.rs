//! Spurious timeouts (RFC 3522, RFC 4015).

use timeous_tcp::{Config, LossDetection, Options, Timestamps};

use crate::script::{MS, RTT, Seen, Timeline, plain};

/// Payload of a full segment with a timestamp.
const LEN: u32 = 988;

fn stamped(loss_detection: LossDetection) -> Config {
    Config { timestamps: true, loss_detection, ..plain() }
}

/// Ten segments are in flight, no acknowledgement arrives, and the first segment is retransmitted.
fn timed_out(loss_detection: LossDetection) -> (Timeline, Vec<Seen>) {
    let mut line = Timeline::established(stamped(loss_detection));
    line.write(10 * LEN as usize);
    line.pass(MS * 350);
    let seen = line.take();
    assert_eq!((seen.len(), seen[10].offset()), (11, 0));
    assert_eq!(line.connection.statistics().timeouts, 1);
    (line, seen)
}

/// Acknowledges `segments` segments, with the timestamp of `seen` as the echo.
fn ack(line: &mut Timeline, segments: u32, seen: &Seen) {
    line.peer_acks = segments * LEN;
    let timestamps = Some(Timestamps { value: 2, echo: seen.options.timestamps.unwrap().value });
    let header = line.peer_header(0);
    line.inject(&header, &Options { timestamps, ..Options::default() }, b"", Default::default());
}

#[test]
fn what_was_late_is_not_sent_again_and_the_window_is_what_it_was() {
    for detection in [LossDetection::DupThresh, LossDetection::Rack] {
        let (mut line, seen) = timed_out(detection);
        ack(&mut line, 1, &seen[0]);
        line.expect_data(&[]);
        assert_eq!(line.connection.outstanding(), u64::from(9 * LEN));
        line.write(2 * LEN as usize);
        // One segment for the one that arrived, and one by slow start, which continues.
        line.expect_data(&[10 * LEN, 11 * LEN]);
        assert_eq!(line.cwnd(), u64::from(11 * LEN));
        for n in 2..=11 {
            ack(&mut line, n, &seen[n as usize - 1]);
        }
        line.expect_data(&[]);
        let statistics = line.connection.statistics();
        assert_eq!((statistics.spurious_timeouts, statistics.retransmissions), (1, 1));
    }
}

#[test]
fn an_echo_of_what_left_again_tells_of_a_loss() {
    let (mut line, seen) = timed_out(LossDetection::Rack);
    ack(&mut line, 1, &seen[10]);
    line.expect_data(&[LEN, 2 * LEN]);
    assert_eq!((line.connection.statistics().spurious_timeouts, line.cwnd()), (0, u64::from(2 * LEN)));
}

#[test]
fn what_is_lost_among_what_was_late_is_found() {
    let (mut line, seen) = timed_out(LossDetection::Rack);
    line.pass(RTT);
    ack(&mut line, 1, &seen[0]);
    line.take();
    // Segment 1 is missing, the others arrive.
    let sack = [(2 * LEN, 10 * LEN)].iter().map(|&(left, right)| line.sack_block(left, right)).collect();
    let timestamps = Some(Timestamps { value: 3, echo: seen[0].options.timestamps.unwrap().value });
    let header = line.peer_header(0);
    line.inject(&header, &Options { timestamps, sack, ..Options::default() }, b"", Default::default());
    line.expect_data(&[LEN]);
    assert_eq!(line.connection.statistics().timeouts, 1);
}

#[test]
fn the_first_of_several_timeouts_counts() {
    let (mut line, seen) = timed_out(LossDetection::Rack);
    line.pass(MS * 700);
    assert_eq!(line.connection.statistics().timeouts, 2);
    line.take();
    ack(&mut line, 1, &seen[0]);
    line.expect_data(&[]);
    assert_eq!(line.connection.statistics().spurious_timeouts, 1);
}

#[test]
fn if_all_has_arrived_the_acknowledgements_may_have_been_lost() {
    let (mut line, seen) = timed_out(LossDetection::Rack);
    ack(&mut line, 10, &seen[9]);
    assert_eq!(line.connection.statistics().spurious_timeouts, 0, "RFC 3522 §3.2, step 5");
    assert!(line.cwnd() < 3_000);
}
