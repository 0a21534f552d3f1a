//! End of connections, in every order (RFC 9293 §3.6).

use timeous_core::{Duration, Ecn};
use timeous_tcp::{CloseReason, Event, Flags, Header, Options, State};

use crate::script::{MS, RTT, Timeline, plain};

const FINISHED: Event = Event::Closed { reason: CloseReason::Finished };

#[test]
fn this_end_first_then_the_peer() {
    let mut line = Timeline::established(plain());
    line.close();
    let fin = line.expect(Flags::FIN);
    assert_eq!((fin.offset(), line.connection.state()), (0, State::FinWait1));
    line.ack(1, &[]);
    assert_eq!(line.connection.state(), State::FinWait2);
    // Half closed: the peer still sends.
    line.data(b"still here", Flags::NONE, Ecn::NotEct);
    assert_eq!(line.expect(Flags::NONE).acks(), 10);
    assert_eq!(line.events, [Event::Readable]);
    line.fin();
    assert_eq!(line.expect(Flags::NONE).acks(), 11);
    assert_eq!(line.connection.state(), State::TimeWait);
    assert_eq!(line.events.make_contiguous()[1..], [Event::PeerFinished, FINISHED]);
    assert_eq!(line.connection.readable(), 10, "it can still be read");
    line.pass(Duration::from_secs(59));
    // The peer did not get our acknowledgement: TIME-WAIT restarts.
    line.peer_sent -= 1;
    line.fin();
    assert_eq!(line.expect(Flags::NONE).acks(), 11);
    line.pass(Duration::from_secs(59));
    assert_eq!(line.connection.state(), State::TimeWait);
    line.pass(Duration::from_secs(1));
    assert_eq!(line.connection.state(), State::Closed);
}

#[test]
fn the_peer_first_then_this_end() {
    let mut line = Timeline::established(plain());
    line.fin();
    assert_eq!(line.expect(Flags::NONE).acks(), 1);
    assert_eq!((line.connection.state(), line.events.len()), (State::CloseWait, 1));
    line.write(2_000);
    line.expect_data(&[0, 1_000]);
    line.pass(RTT);
    line.ack(2_000, &[]);
    line.close();
    assert_eq!(line.expect(Flags::FIN).offset(), 2_000);
    assert_eq!(line.connection.state(), State::LastAck);
    line.ack(2_001, &[]);
    assert_eq!(line.connection.state(), State::Closed);
    assert_eq!(line.events.back(), Some(&FINISHED));
    assert!(line.connection.is_finished() || line.connection.readable() == 0);
}

#[test]
fn both_at_the_same_time() {
    let mut line = Timeline::established(plain());
    line.close();
    line.expect(Flags::FIN);
    line.fin();
    assert_eq!(line.expect(Flags::NONE).acks(), 1);
    assert_eq!(line.connection.state(), State::Closing);
    line.ack(1, &[]);
    assert_eq!(line.connection.state(), State::TimeWait);
    assert_eq!(line.events, [Event::PeerFinished, FINISHED]);
}

#[test]
fn one_segment_may_acknowledge_our_fin_and_bring_the_peers() {
    let mut line = Timeline::established(plain());
    line.close();
    line.expect(Flags::FIN);
    line.peer_acks = 1;
    line.fin();
    assert_eq!(line.connection.state(), State::TimeWait);
    assert_eq!(line.expect(Flags::NONE).acks(), 1);
}

#[test]
fn what_is_queued_leaves_before_the_fin() {
    let mut line = Timeline::established(plain());
    line.write(15_000);
    line.close();
    assert_eq!(line.take().len(), 10, "the window is full");
    assert_eq!(line.connection.state(), State::Established);
    line.pass(RTT);
    for acked in 1..=5 {
        line.ack(acked * 1_000, &[]);
    }
    let seen = line.take();
    let fin = seen.last().unwrap();
    assert!(fin.has(Flags::FIN) && fin.offset() == 15_000 && fin.payload.is_empty());
    assert_eq!(line.connection.state(), State::FinWait1);
}

#[test]
fn a_lost_fin_is_sent_again_even_into_a_closed_window() {
    let mut line = Timeline::established(plain());
    line.window = 0;
    line.ack(0, &[]);
    line.close();
    line.expect(Flags::FIN);
    line.pass(MS * 900);
    assert_eq!(line.expect(Flags::FIN).offset(), 0);
    assert_eq!(line.expect(Flags::FIN).offset(), 0);
    line.ack(1, &[]);
    assert_eq!(line.connection.state(), State::FinWait2);
    assert_eq!(line.connection.outstanding(), 0);
}

#[test]
fn a_fin_is_no_byte() {
    let mut line = Timeline::established(plain());
    line.write(1_500);
    line.close();
    line.take();
    line.ack(1_501, &[]);
    let statistics = line.connection.statistics();
    assert_eq!((statistics.bytes_sent, statistics.bytes_acked), (1_500, 1_500));
    assert_eq!(line.connection.unacknowledged(), 0);
}

#[test]
fn a_fin_before_the_data_waits_for_them() {
    let mut line = Timeline::established(plain());
    let header = Header { flags: Flags::FIN, ..line.peer_header(5) };
    line.inject(&header, &Options::default(), b"", Ecn::NotEct);
    assert_eq!(line.connection.state(), State::Established);
    line.data(b"first", Flags::NONE, Ecn::NotEct);
    assert_eq!(line.connection.state(), State::CloseWait);
    assert_eq!(line.events, [Event::Readable, Event::PeerFinished]);
}

#[test]
fn closing_before_there_is_a_connection() {
    let mut line = Timeline::client(plain());
    line.take();
    line.close();
    assert_eq!((line.connection.state(), line.events.len()), (State::Closed, 1));
    line.expect_nothing();
    let mut line = Timeline::server(plain());
    let syn = Header { ack: None, flags: Flags::SYN, ..line.peer_header(0_u32.wrapping_sub(1)) };
    line.inject(&syn, &crate::script::offer(&plain()), b"", Ecn::NotEct);
    line.take();
    line.close();
    assert_eq!(line.connection.state(), State::SynReceived);
    line.ack(0, &[]);
    line.expect(Flags::FIN);
    assert_eq!(line.connection.state(), State::FinWait1);
}

#[test]
fn a_reset_while_waiting_for_the_last_acknowledgement_is_an_end_like_any_other() {
    let mut line = Timeline::established(plain());
    line.fin();
    line.close();
    line.take();
    assert_eq!(line.connection.state(), State::LastAck);
    let header = Header { flags: Flags::RST, ..line.peer_header(line.peer_sent) };
    line.inject(&header, &Options::default(), b"", Ecn::NotEct);
    assert_eq!(line.events.back(), Some(&FINISHED));
}

#[test]
fn time_wait_hears_no_reset() {
    let mut line = Timeline::established(plain());
    line.close();
    line.peer_acks = 1;
    line.fin();
    line.take();
    let header = Header { flags: Flags::RST, ..line.peer_header(1) };
    line.inject(&header, &Options::default(), b"", Ecn::NotEct);
    assert_eq!(line.connection.state(), State::TimeWait, "RFC 1337");
}
