//! Three-way handshake (RFC 9293 §3.5, §3.10.7.2, §3.10.7.3; RFC 7323; RFC 6298 §5.7).

use timeous_core::Duration;
use timeous_tcp::{CloseReason, Config, EcnMode, Event, Flags, Header, Options, Seq, State, Timestamps};

use crate::script::{IRS, ISS, MS, RTT, Timeline, offer, plain};

#[test]
fn a_client_offers_what_it_is_told_to_and_takes_what_is_accepted() {
    let config = Config { ecn: EcnMode::Request, initial_seq: Some(Seq::new(ISS)), ..Config::default() };
    let mut line = Timeline::client(config);
    let syn = line.expect(Flags::SYN | Flags::ECE | Flags::CWR);
    assert_eq!((syn.header.seq, syn.header.ack, syn.header.window), (Seq::new(ISS), None, u16::MAX));
    assert_eq!((syn.options.mss, syn.options.window_scale), (Some(1_460), Some(7)));
    assert!(syn.options.sack_permitted && syn.options.timestamps.is_some_and(|t| t.echo == 0));
    line.pass(RTT);
    let timestamps = Some(Timestamps { value: 777, echo: syn.options.timestamps.unwrap().value });
    line.syn_ack(Options { mss: Some(1_200), timestamps, ..Options::default() }, Flags::NONE);
    let ack = line.expect(Flags::NONE);
    assert_eq!((ack.header.seq, ack.header.ack), (Seq::new(ISS + 1), Some(Seq::new(IRS + 1))));
    assert_eq!(ack.options.timestamps.map(|t| t.echo), Some(777));
    assert_eq!(ack.header.window, u16::MAX, "without the option windows are not scaled");
    assert_eq!(line.connection.state(), State::Established);
    assert_eq!(line.events, [Event::Connected]);
    assert_eq!(line.connection.max_payload(), 1_200 - 12);
    let path = line.cm.query(line.connection.flow().unwrap()).unwrap();
    assert_eq!(path.srtt, Some(RTT), "the handshake is a sample");
}

#[test]
fn a_server_accepts_only_what_was_offered() {
    let mut line = Timeline::server(Config { initial_seq: Some(Seq::new(ISS)), ..Config::default() });
    let syn = Header { ack: None, flags: Flags::SYN, seq: Seq::new(IRS), ..line.peer_header(0) };
    line.inject(&syn, &Options { window_scale: Some(3), ..Options::default() }, b"", Default::default());
    let answer = line.expect(Flags::SYN);
    assert_eq!(answer.header.ack, Some(Seq::new(IRS + 1)));
    assert_eq!(answer.options.window_scale, Some(7));
    assert!(!answer.options.sack_permitted && answer.options.timestamps.is_none());
    assert_eq!(line.connection.state(), State::SynReceived);
    line.window = 2_000;
    line.ack(0, &[]);
    assert_eq!(line.connection.state(), State::Established);
    assert_eq!(line.connection.max_payload(), 536, "RFC 9293 §3.7.1: no MSS option was there");
    line.write(50_000);
    assert_eq!(line.take().len(), 10, "a window of 2000 × 8 bytes is more than the initial congestion window");
}

#[test]
fn a_syn_is_repeated_more_and_more_rarely_and_given_up() {
    let mut line = Timeline::client(plain());
    line.expect(Flags::SYN);
    line.pass(Duration::from_secs(127));
    let times: Vec<u64> = line.take().iter().map(|seen| seen.at.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [1, 3, 7, 15, 31, 63]);
    assert_eq!(line.connection.state(), State::Closed);
    assert_eq!(line.events, [Event::Closed { reason: CloseReason::Timeout }]);
}

#[test]
fn an_answer_to_a_repeated_syn_is_no_sample_and_after_two_losses_the_window_is_one_segment() {
    let mut line = Timeline::client(plain());
    line.pass(Duration::from_millis(1_050));
    line.take();
    line.syn_ack(offer(&plain()), Flags::NONE);
    assert_eq!((line.cm.query(line.connection.flow().unwrap()).unwrap().srtt, line.cwnd()), (None, 10_000));
    let mut line = Timeline::client(plain());
    line.pass(Duration::from_millis(3_050));
    line.take();
    line.syn_ack(offer(&plain()), Flags::NONE);
    assert_eq!(line.cwnd(), 1_000, "RFC 5681 §3.1, RFC 6928");
}

#[test]
fn a_syn_ack_is_repeated_by_the_timer_and_when_the_syn_comes_again() {
    let mut line = Timeline::server(plain());
    let syn = Header { ack: None, flags: Flags::SYN, seq: Seq::new(IRS), ..line.peer_header(0) };
    for _ in 0..2 {
        line.inject(&syn, &offer(&plain()), b"", Default::default());
        assert_eq!(line.expect(Flags::SYN).header.ack, Some(Seq::new(IRS + 1)));
    }
    line.pass(Duration::from_millis(1_001));
    line.expect(Flags::SYN);
    line.pass(Duration::from_secs(120));
    assert_eq!(line.take().len(), 4);
    assert_eq!(line.connection.state(), State::Closed);
}

#[test]
fn a_reset_that_acknowledges_the_syn_refuses_and_others_are_not_heard() {
    let mut line = Timeline::client(plain());
    line.expect(Flags::SYN);
    for (ack, refused) in [(Some(ISS), false), (None, false), (Some(ISS + 1), true)] {
        let header = Header { flags: Flags::RST, ack: ack.map(Seq::new), ..line.peer_header(0) };
        line.inject(&header, &Options::default(), b"", Default::default());
        assert_eq!(line.connection.state() == State::Closed, refused, "{ack:?}");
        line.expect_nothing();
    }
    assert_eq!(line.events, [Event::Closed { reason: CloseReason::Refused }]);
}

#[test]
fn an_answer_to_another_connection_is_reset() {
    let mut line = Timeline::client(plain());
    line.expect(Flags::SYN);
    let header = Header { flags: Flags::SYN, ack: Some(Seq::new(5_555)), ..line.peer_header(0) };
    line.inject(&header, &Options::default(), b"", Default::default());
    let reset = line.expect(Flags::RST);
    assert_eq!((reset.header.seq, reset.header.ack), (Seq::new(5_555), None), "<SEQ=SEG.ACK><CTL=RST>");
    assert_eq!(line.connection.state(), State::SynSent);
}

#[test]
fn both_may_ask_at_the_same_time() {
    let mut line = Timeline::client(plain());
    line.expect(Flags::SYN);
    let syn = Header { ack: None, flags: Flags::SYN, seq: Seq::new(IRS), ..line.peer_header(0) };
    line.inject(&syn, &offer(&plain()), b"", Default::default());
    assert_eq!(line.connection.state(), State::SynReceived);
    let answer = line.expect(Flags::SYN);
    assert_eq!((answer.header.seq, answer.header.ack), (Seq::new(ISS), Some(Seq::new(IRS + 1))));
    line.syn_ack(offer(&plain()), Flags::NONE);
    assert_eq!(line.connection.state(), State::Established);
    assert_eq!(line.expect(Flags::NONE).acks(), 0);
}

#[test]
fn a_listener_resets_what_acknowledges_and_ignores_resets() {
    let mut line = Timeline::server(plain());
    line.ack(77, &[]);
    assert_eq!(line.expect(Flags::RST).header.seq, Seq::new(ISS + 1 + 77));
    let header = Header { flags: Flags::RST, ..line.peer_header(0) };
    line.inject(&header, &Options::default(), b"", Default::default());
    line.expect_nothing();
    assert_eq!(line.connection.state(), State::Listen);
}

#[test]
fn data_on_the_ack_of_the_handshake_are_taken() {
    let mut line = Timeline::server(plain());
    let syn = Header { ack: None, flags: Flags::SYN, seq: Seq::new(IRS), ..line.peer_header(0) };
    line.inject(&syn, &offer(&plain()), b"", Default::default());
    line.expect(Flags::SYN);
    line.pass(MS * 10);
    line.data(b"hello", Flags::NONE, Default::default());
    assert_eq!(line.events, [Event::Connected, Event::Readable]);
    let mut bytes = Vec::new();
    line.connection.read(usize::MAX, &mut bytes);
    assert_eq!(bytes, b"hello");
}
