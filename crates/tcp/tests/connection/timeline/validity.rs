//! Segments that an off-path attacker may have sent (RFC 9293 §3.10.7.4, RFC 5961).

use timeous_core::{Duration, Ecn};
use timeous_tcp::{CloseReason, Event, Flags, Header, Options, State};

use crate::script::{Timeline, plain};

fn reset(line: &mut Timeline, offset: u32) {
    let header = Header { flags: Flags::RST, ..line.peer_header(offset) };
    line.inject(&header, &Options::default(), b"", Ecn::NotEct);
}

#[test]
fn a_reset_must_hit_the_very_number() {
    let mut line = Timeline::established(plain());
    reset(&mut line, 1);
    assert_eq!(line.expect(Flags::NONE).acks(), 0, "a challenge ACK");
    reset(&mut line, 0_u32.wrapping_sub(5_000));
    line.expect_nothing();
    assert_eq!(line.connection.state(), State::Established);
    reset(&mut line, 0);
    line.expect_nothing();
    assert_eq!(line.events, [Event::Closed { reason: CloseReason::Reset }]);
    assert_eq!(line.connection.state(), State::Closed);
    assert!(line.connection.is_finished() || !line.events.is_empty());
}

#[test]
fn a_syn_in_the_middle_is_challenged() {
    let mut line = Timeline::established(plain());
    let header = Header { flags: Flags::SYN, ..line.peer_header(10) };
    line.inject(&header, &Options::default(), b"", Ecn::NotEct);
    assert_eq!(line.expect(Flags::NONE).acks(), 0);
    assert_eq!(line.connection.state(), State::Established);
}

#[test]
fn acknowledgements_of_what_was_never_sent_or_long_ago_bring_no_data() {
    let mut line = Timeline::established(plain());
    line.write(1_000);
    line.take();
    for ack in [1_001, 0_u32.wrapping_sub(60_001)] {
        line.peer_acks = ack;
        line.data(b"evil", Flags::NONE, Ecn::NotEct);
        line.expect(Flags::NONE);
        assert_eq!(line.connection.readable(), 0);
        line.peer_sent = 0;
    }
    line.peer_acks = 0_u32.wrapping_sub(60_000);
    line.data(b"old", Flags::NONE, Ecn::NotEct);
    assert_eq!(line.connection.readable(), 3, "within the greatest window it may be an old duplicate");
}

#[test]
fn a_segment_without_ack_is_nothing() {
    let mut line = Timeline::established(plain());
    let header = Header { ack: None, ..line.peer_header(0) };
    line.inject(&header, &Options::default(), b"data", Ecn::NotEct);
    line.expect_nothing();
    assert_eq!(line.connection.readable(), 0);
}

#[test]
fn what_is_out_of_the_window_is_answered_and_dropped() {
    let mut line = Timeline::established(plain());
    line.data(b"one", Flags::NONE, Ecn::NotEct);
    line.expect(Flags::NONE);
    line.peer_sent = 0_u32.wrapping_sub(100);
    line.data(b"old", Flags::NONE, Ecn::NotEct);
    assert_eq!(line.expect(Flags::NONE).acks(), 3);
    assert_eq!(line.connection.readable(), 3);
}

#[test]
fn challenges_are_few() {
    let mut line = Timeline::established(plain());
    line.pass(Duration::from_secs(1));
    for _ in 0..100 {
        reset(&mut line, 7);
    }
    assert_eq!(line.take().len(), 10);
    assert_eq!(line.connection.statistics().challenges, 10);
}

#[test]
fn a_closed_connection_resets_what_still_comes() {
    let mut line = Timeline::established(plain());
    line.connection.abort(line.now).unwrap();
    line.drain();
    let sent = line.expect(Flags::RST);
    assert_eq!((sent.offset(), sent.acks()), (0, 0));
    assert_eq!(line.events, [Event::Closed { reason: CloseReason::Aborted }]);
    line.data(b"more", Flags::NONE, Ecn::NotEct);
    assert_eq!(line.expect(Flags::RST).header.ack, None);
}
