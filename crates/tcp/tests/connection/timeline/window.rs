//! The peer's window (RFC 9293 §3.8.6), and this end's.

use timeous_core::Duration;
use timeous_tcp::{CloseReason, Config, Event, Flags, Seq};

use crate::script::{ISS, MS, RTT, Timeline, plain};

#[test]
fn a_segment_leaves_if_all_of_it_fits() {
    let mut line = Timeline::established(plain());
    line.window = 3_500;
    line.ack(0, &[]);
    line.write(10_000);
    line.expect_data(&[0, 1_000, 2_000]);
    line.pass(RTT);
    line.ack(1_000, &[]);
    line.expect_data(&[3_000]);
    line.window = 500;
    line.ack(4_000, &[]);
    line.expect_data(&[]);
    line.window = 1_000;
    line.ack(4_000, &[]);
    line.expect_data(&[4_000]);
}

#[test]
fn a_closed_window_is_probed_more_and_more_rarely_with_nothing_in_the_probe() {
    let mut line = Timeline::established(plain());
    line.window = 0;
    line.ack(0, &[]);
    let began = line.now;
    line.write(5_000);
    line.expect_nothing();
    line.pass(Duration::from_secs(5));
    let probes = line.take();
    let times: Vec<u64> = probes.iter().map(|seen| (seen.at - began).as_millis()).collect();
    assert_eq!(times, [300, 900, 2_100, 4_500]);
    assert!(probes.iter().all(|seen| seen.payload.is_empty() && seen.header.seq == Seq::new(ISS)));
    line.window = 2_000;
    line.ack(0, &[]);
    line.expect_data(&[0, 1_000]);
    assert_eq!(line.source.len(), 3_000, "nothing was pulled for a closed window");
}

#[test]
fn a_peer_that_answers_probes_lives_and_one_that_does_not_is_dead() {
    let mut line = Timeline::established(Config { retries: 4, ..plain() });
    line.window = 0;
    line.ack(0, &[]);
    line.write(1_000);
    for _ in 0..20 {
        line.pass(Duration::from_secs(3));
        line.ack(0, &[]);
    }
    assert_eq!(line.connection.state(), timeous_tcp::State::Established);
    line.pass(Duration::from_secs(600));
    assert_eq!(line.events.back(), Some(&Event::Closed { reason: CloseReason::Timeout }));
}

#[test]
fn a_peer_that_closes_its_window_over_data_under_way_and_answers_lives() {
    let mut line = Timeline::established(Config { retries: 4, ..plain() });
    line.write(2_000);
    line.window = 0;
    for _ in 0..20 {
        line.pass(Duration::from_secs(4));
        line.ack(0, &[]);
    }
    assert_eq!(line.connection.state(), timeous_tcp::State::Established);
    line.window = 5_000;
    line.ack(2_000, &[]);
    assert_eq!(line.connection.outstanding(), 0);
}

#[test]
fn with_data_under_way_their_timer_does_the_probing() {
    let mut line = Timeline::established(plain());
    line.write(2_000);
    line.take();
    line.window = 0;
    line.pass(RTT);
    line.ack(1_000, &[]);
    line.pass(Duration::from_secs(1));
    assert!(line.take().iter().all(|seen| seen.offset() == 1_000));
    assert_eq!(line.connection.statistics().window_probes, 0);
}

#[test]
fn our_window_is_what_was_not_read_and_reading_half_of_it_is_told() {
    let mut line = Timeline::established(Config { receive_buffer: 4_000, ..plain() });
    for left in [3_000, 2_000, 1_000, 0] {
        line.data(&[1; 1_000], Flags::NONE, Default::default());
        assert_eq!(line.expect(Flags::NONE).header.window, left);
    }
    let mut bytes = Vec::new();
    line.connection.read(500, &mut bytes);
    line.drain();
    line.expect_nothing();
    line.connection.read(1_500, &mut bytes);
    line.pass(MS);
    assert_eq!(line.expect(Flags::NONE).header.window, 2_000);
    assert_eq!(bytes.len(), 2_000);
}

#[test]
fn a_small_buffer_gets_small_segments() {
    let mut line = Timeline::client(plain());
    line.expect(Flags::SYN);
    line.window = 1_000;
    line.syn_ack(crate::script::offer(&plain()), Flags::NONE);
    line.take();
    assert_eq!(line.connection.max_payload(), 500);
    line.write(2_000);
    let sizes: Vec<usize> = line.take().iter().map(|seen| seen.payload.len()).collect();
    assert_eq!(sizes, [500, 500]);
}

#[test]
fn the_last_segment_of_what_there_is_to_send_is_pushed() {
    let mut line = Timeline::established(plain());
    line.write(2_500);
    let pushed: Vec<bool> = line.take().iter().map(|seen| seen.has(Flags::PSH)).collect();
    assert_eq!(pushed, [false, false, true]);
}

#[test]
fn stream_numbers_wrap() {
    let config = Config { initial_seq: Some(Seq::new(u32::MAX - 2_500)), ..plain() };
    let mut line = Timeline::client(config);
    let syn = line.expect(Flags::SYN);
    line.peer_acks = syn.header.seq.distance_from(Seq::new(ISS));
    let first = line.peer_acks;
    line.syn_ack(crate::script::offer(&plain()), Flags::NONE);
    line.take();
    line.write(10_000);
    line.take();
    line.pass(RTT);
    let at = |offset: u32| first.wrapping_add(offset);
    line.ack(at(0), &[(at(2_000), at(5_000))]);
    line.expect_data(&[at(0)]);
    line.ack(at(0), &[(at(2_000), at(7_000))]);
    line.expect_data(&[at(1_000)]);
    line.ack(at(10_000), &[]);
    assert_eq!((line.connection.outstanding(), line.connection.unacknowledged()), (0, 0));
}
