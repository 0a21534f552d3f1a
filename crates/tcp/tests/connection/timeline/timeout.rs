//! Retransmission timer (RFC 6298), and the window after a timeout (RFC 5681).

use timeous_core::{Duration, Transport};
use timeous_tcp::{CloseReason, Config, Event, Options, State, Timestamps};

use crate::script::{MS, RTT, Timeline, plain};

/// Returns the segments' send times in milliseconds.
fn times(line: &mut Timeline) -> Vec<u64> {
    line.take().iter().map(|seen| seen.at.as_nanos() / 1_000_000).collect()
}

#[test]
fn the_timer_is_srtt_and_four_deviations_and_doubles() {
    let mut line = Timeline::established(plain());
    // R = 100 ms: SRTT = 100, RTTVAR = 50, RTO = 300.
    line.write(1_000);
    assert_eq!(times(&mut line), [100]);
    line.pass(Duration::from_secs(10));
    assert_eq!(times(&mut line), [400, 1_000, 2_200, 4_600, 9_400]);
    assert_eq!(line.cwnd(), 1_000);
}

#[test]
fn an_acknowledgement_of_something_new_starts_the_timer_anew_and_of_everything_stops_it() {
    let mut line = Timeline::established(plain());
    line.write(3_000);
    line.take();
    line.pass(RTT);
    line.ack(1_000, &[]);
    // SRTT = 100, RTTVAR = 3/4 × 50, but the margin is at least 200 ms: RTO = 300 from now.
    line.pass(MS * 299);
    line.expect_nothing();
    line.pass(MS);
    line.expect_data(&[1_000]);
    line.ack(3_000, &[]);
    assert_eq!(line.connection.poll_timeout(), Ok(None));
}

#[test]
fn a_sample_is_not_taken_of_what_was_repeated_and_the_backoff_stays_until_there_is_one() {
    let mut line = Timeline::established(plain());
    line.write(2_000);
    line.pass(MS * 950);
    // Sent at 100, retransmitted at 400 and 1000.
    assert_eq!(line.connection.statistics().timeouts, 2);
    line.take();
    line.ack(2_000, &[]);
    let path = line.cm.query(line.connection.flow().unwrap()).unwrap();
    assert_eq!(path.srtt, Some(RTT), "Karn's algorithm");
    let began = line.now;
    line.write(1_000);
    line.pass(Duration::from_secs(2));
    let waits: Vec<Duration> = line.take().iter().map(|seen| seen.at - began).collect();
    assert_eq!(waits, [Duration::ZERO, MS * 1_200], "RFC 6298 §5: the timeout is still 300 ms, doubled twice");
    line.ack(3_000, &[]);
    line.write(1_000);
    line.pass(RTT);
    line.ack(4_000, &[]);
    let began = line.now;
    line.write(1_000);
    line.pass(Duration::from_secs(1));
    let waits: Vec<Duration> = line.take().iter().skip(2).map(|seen| seen.at - began).collect();
    assert_eq!(waits[0], MS * 300, "a new sample collapses it");
}

#[test]
fn with_timestamps_what_was_repeated_is_a_sample_too() {
    let mut line = Timeline::established(Config { timestamps: true, ..plain() });
    line.write(900);
    line.pass(MS * 350);
    let repeated = line.take().pop().unwrap();
    assert_eq!(line.now - repeated.at, MS * 50);
    line.pass(MS * 10);
    let echo = repeated.options.timestamps.unwrap().value;
    line.peer_acks = 900;
    let timestamps = Some(Timestamps { value: 2, echo });
    let header = line.peer_header(0);
    line.inject(&header, &Options { timestamps, ..Options::default() }, b"", Default::default());
    // 100 × 7/8 + 60 × 1/8.
    let path = line.cm.query(line.connection.flow().unwrap()).unwrap();
    assert_eq!(path.srtt, Some(MS * 95));
}

#[test]
fn everything_missing_is_filled_in_by_slow_start_to_half_of_what_was_out() {
    let mut line = Timeline::established(plain());
    line.write(10_000);
    line.take();
    line.pass(MS * 300);
    line.expect_data(&[0]);
    let mut sent = 1;
    for acked in 1..=8 {
        line.ack(acked * 1_000, &[]);
        sent += line.take().len();
    }
    assert_eq!(sent, 10);
    // 1, 2, 3, 4, 5 by slow start, then one per window.
    assert_eq!(line.cwnd(), 5_000);
}

#[test]
fn a_second_timeout_of_the_same_segment_leaves_the_threshold() {
    let mut line = Timeline::established(plain());
    line.write(10_000);
    line.take();
    line.pass(MS * 1_000);
    assert_eq!(line.connection.statistics().timeouts, 2);
    for acked in 1..=8 {
        line.ack(acked * 1_000, &[]);
    }
    assert_eq!(line.cwnd(), 5_000, "RFC 5681 §3.1");
}

#[test]
fn two_small_segments_fit_in_a_window_of_one_full_one() {
    let mut line = Timeline::established(plain());
    line.write(500);
    line.write(500);
    line.expect_data(&[0, 500]);
    line.pass(MS * 300);
    assert_eq!(line.connection.statistics().timeouts, 1);
    line.expect_data(&[0, 500]);
}

#[test]
fn so_many_timeouts_and_the_peer_is_taken_for_dead() {
    let mut line = Timeline::established(Config { retries: 3, ..plain() });
    line.write(1_000);
    line.write(1_000);
    line.pass(Duration::from_secs(10));
    assert_eq!(line.take().len(), 2 + 3);
    let closed = Event::Closed { reason: CloseReason::Timeout };
    assert_eq!(line.events, [Event::Lost { token: 0 }, Event::Lost { token: 1 }, closed]);
    assert_eq!(line.connection.state(), State::Closed);
}

#[test]
fn the_user_timeout_counts_from_the_last_progress() {
    let mut line = Timeline::established(Config { user_timeout: Some(Duration::from_secs(5)), ..plain() });
    line.write(2_000);
    line.pass(Duration::from_secs(4));
    line.ack(1_000, &[]);
    line.pass(Duration::from_millis(4_999));
    assert_eq!(line.connection.state(), State::Established);
    line.pass(MS);
    assert_eq!(line.connection.state(), State::Closed);
    assert_eq!(line.events.back(), Some(&Event::Closed { reason: CloseReason::Timeout }));
}

/// Makes another flow to the same host fill the window.
fn fill_by_another_flow(line: &mut Timeline) {
    let other = line.cm.open(std::net::IpAddr::from([192, 0, 2, 2]).into(), 1_000);
    loop {
        line.cm.request(line.now, other).unwrap();
        if !line.cm.has_grant(other) {
            return;
        }
        line.cm.notify(line.now, other, 1_000).unwrap();
    }
}

#[test]
fn what_repairs_a_loss_waits_for_no_other_flow() {
    let mut line = Timeline::established(plain());
    line.write(4_000);
    line.take();
    fill_by_another_flow(&mut line);
    line.pass(RTT);
    line.ack(0, &[(1_000, 4_000)]);
    line.expect_data(&[0]);
    line.pass(MS * 300);
    line.expect_data(&[0]);
    line.write(1_000);
    line.ack(4_000, &[]);
    line.expect_data(&[]);
    assert!(line.cm.is_waiting(line.connection.flow().unwrap()), "new data do wait");
}

#[test]
fn the_threshold_is_half_of_what_is_in_flight_and_not_of_what_has_not_arrived() {
    let mut line = Timeline::established(plain());
    line.write(10_000);
    line.take();
    line.pass(RTT);
    line.ack(0, &[(8_000, 10_000)]);
    line.pass(RTT * 3);
    line.expect_data(&[0]);
    for acked in 1..=7 {
        line.ack(acked * 1_000, &[(8_000, 10_000)]);
    }
    line.ack(10_000, &[]);
    // From 1 to 5 by slow start, and four in the next window.
    assert_eq!(line.cwnd(), 5_000, "FlightSize is 10000 (RFC 5681 §2), although 2000 had arrived");
}

#[test]
fn after_a_lost_syn_data_have_three_seconds() {
    let mut line = Timeline::client(plain());
    line.pass(MS * 1_050);
    line.take();
    line.syn_ack(crate::script::offer(&plain()), timeous_tcp::Flags::NONE);
    line.take();
    line.write(1_000);
    line.pass(MS * 2_999);
    line.expect_data(&[0]);
    line.pass(MS);
    line.expect_data(&[0]);
    line.ack(1_000, &[]);
    line.write(1_000);
    line.pass(RTT);
    line.ack(2_000, &[]);
    line.write(1_000);
    line.take();
    line.pass(MS * 300);
    line.expect_data(&[2_000]);
}
