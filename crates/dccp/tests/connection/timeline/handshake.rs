//! Timelines of the handshake: LISTEN, REQUEST, RESPOND, PARTOPEN (RFC 4340 §8.1).

use timeous_core::Duration;
use timeous_dccp::{Body, CloseReason, Event, Opt, PacketType, ResetCode, ResetReason, Seq, ServiceCode, State};

use crate::pair::SERVICE;
use crate::script::{ISR, ISS, Timeline};

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

fn seconds(seen: &[crate::script::Seen]) -> Vec<f64> {
    seen.iter().map(|seen| (seen.at - timeous_core::Instant::ZERO).as_secs_f64()).collect()
}

#[test]
fn a_client_goes_from_request_over_partopen_to_open() {
    let mut line = Timeline::client();
    let request = line.expect(PacketType::Request);
    assert_eq!(request.seq(), ISS);
    assert_eq!(request.header.body, Body::Request { service: SERVICE });
    line.send(Body::Response { ack: request.header.seq, service: SERVICE });
    let ack = line.expect(PacketType::Ack);
    assert_eq!((ack.seq(), ack.ack()), (ISS + 1, ISR));
    assert_eq!(line.connection.state(), State::PartOpen);
    assert_eq!(line.events, [Event::Connected]);
    line.send(Body::Ack { ack: ack.header.seq });
    assert_eq!(line.connection.state(), State::Open);
}

#[test]
fn a_server_goes_from_listen_over_respond_to_open_and_says_so() {
    let mut line = Timeline::server();
    line.send_request(SERVICE);
    let response = line.expect(PacketType::Response);
    assert_eq!(response.header.body, Body::Response { ack: Seq::new(ISR), service: SERVICE });
    assert_eq!((line.connection.state(), response.seq()), (State::Respond, ISS));
    assert!(line.events.is_empty());
    line.send(Body::Ack { ack: response.header.seq });
    assert_eq!(line.connection.state(), State::Open);
    assert_eq!(line.events, [Event::Connected]);
    let confirmation = line.expect(PacketType::Ack);
    // The client did not get that, and repeats its Ack.
    line.send(Body::Ack { ack: response.header.seq });
    line.expect(PacketType::Ack);
    line.send(Body::Ack { ack: confirmation.header.seq });
    line.expect_nothing();
}

#[test]
fn requests_are_repeated_with_new_numbers_and_given_up() {
    let mut line = Timeline::client();
    line.pass(SEC * 60);
    let seen = line.take();
    assert_eq!(seconds(&seen), [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 60.0]);
    assert!(seen.windows(2).all(|two| two[1].seq() == two[0].seq() + 1));
    let last = seen.last().unwrap();
    assert_eq!((last.reset().0, last.ack()), (2, 0), "Aborted; nothing was ever received");
    assert_eq!(line.events, [Event::Closed { reason: CloseReason::Timeout }]);
    assert_eq!(line.connection.state(), State::Closed);
}

#[test]
fn a_response_to_an_older_request_is_as_good() {
    let mut line = Timeline::client();
    line.pass(SEC * 2);
    line.take();
    line.send(Body::Response { ack: Seq::new(ISS), service: SERVICE });
    assert_eq!(line.connection.state(), State::PartOpen);
}

#[test]
fn only_a_response_or_reset_to_a_request_counts_in_request() {
    for (body, number, seq) in [
        (Body::Response { ack: Seq::new(ISS + 5), service: SERVICE }, 1, ISS + 6),
        (Body::Response { ack: Seq::new(ISS), service: ServiceCode::new(9) }, 1, ISS + 1),
        (Body::Data, 2, 0),
        (Body::Ack { ack: Seq::new(ISS) }, 3, ISS + 1),
        (Body::Sync { ack: Seq::new(ISS) }, 8, ISS + 1),
        (Body::Request { service: SERVICE }, 0, 0),
    ] {
        let mut line = Timeline::client();
        line.expect(PacketType::Request);
        line.send(body);
        let reset = line.expect(PacketType::Reset);
        assert_eq!(reset.reset(), (4, [number, 0, 0]), "Packet Error");
        assert_eq!((reset.seq(), reset.ack()), (seq, ISR), "as in the third example of §7.5.6");
        assert_eq!(line.connection.state(), State::Request);
    }
}

#[test]
fn a_reset_refuses_a_request_only_if_it_answers_it() {
    let reset = |ack| Body::Reset { ack: Seq::new(ack), code: ResetCode::ConnectionRefused, data: [0; 3] };
    let mut line = Timeline::client();
    line.expect(PacketType::Request);
    line.send(reset(ISS + 9));
    line.expect_nothing();
    assert_eq!(line.connection.state(), State::Request);
    line.send_at(0, reset(ISS), &[], b"");
    line.expect_nothing();
    let reason = CloseReason::Reset(ResetReason::plain(ResetCode::ConnectionRefused));
    assert_eq!(line.events, [Event::Closed { reason }]);
    assert_eq!(line.connection.state(), State::TimeWait);
}

#[test]
fn the_handshakes_ack_is_repeated_until_the_server_shows_that_it_has_it() {
    let mut line = Timeline::client();
    let request = line.expect(PacketType::Request);
    line.send(Body::Response { ack: request.header.seq, service: SERVICE });
    line.pass(MS * 1_500);
    assert_eq!(seconds(&line.take()), [0.0, 0.2, 0.6, 1.4]);
    // A repeated Response shows the contrary; a Sync shows nothing.
    line.send(Body::Response { ack: request.header.seq, service: SERVICE });
    line.expect(PacketType::Ack);
    line.send(Body::Sync { ack: request.header.seq });
    line.expect(PacketType::SyncAck);
    assert_eq!(line.connection.state(), State::PartOpen);
    line.send(Body::Data);
    assert_eq!(line.connection.state(), State::Open);
}

#[test]
fn a_handshake_that_does_not_end_is_aborted_after_four_lifetimes() {
    let mut line = Timeline::client();
    let request = line.expect(PacketType::Request);
    line.send(Body::Response { ack: request.header.seq, service: SERVICE });
    line.pass(SEC * 480);
    assert_eq!(line.take().last().unwrap().reset().0, 2);

    let mut line = Timeline::server();
    line.send_request(SERVICE);
    line.expect(PacketType::Response);
    line.pass(SEC * 479);
    line.expect_nothing();
    line.pass(SEC);
    assert_eq!(line.expect(PacketType::Reset).reset().0, 2);
    assert_eq!(line.connection.state(), State::Closed);
}

#[test]
fn every_new_request_gets_a_response_and_a_duplicate_gets_none() {
    let mut line = Timeline::server();
    line.send_request(SERVICE);
    line.expect(PacketType::Response);
    line.send_request(SERVICE);
    let response = line.expect(PacketType::Response);
    assert_eq!((response.seq(), response.ack()), (ISS + 1, ISR + 1));
    line.send_at(ISR + 1, Body::Request { service: SERVICE }, &[], b"");
    line.expect_nothing();
}

#[test]
fn the_first_response_carries_all_that_the_first_request_asked_for() {
    let mut line = Timeline::client();
    let request = line.expect(PacketType::Request);
    line.pass(SEC);
    let again = line.expect(PacketType::Request);
    assert_eq!(request.packet().options, again.packet().options, "a repeated Change is the same (§6.6.4)");
    assert!(!request.packet().options.is_empty());
}

#[test]
fn what_is_no_request_to_a_listening_server_is_refused() {
    let numbers = |line: &mut Timeline| {
        let reset = line.expect(PacketType::Reset);
        (reset.reset().0, reset.seq(), reset.ack())
    };
    let mut line = Timeline::server();
    line.send(Body::Data);
    assert_eq!(numbers(&mut line), (3, 0, ISR), "§8.3.1: no number to go by");
    line.send(Body::Ack { ack: Seq::new(77) });
    assert_eq!(numbers(&mut line), (3, 78, ISR + 1));
    line.send(Body::Reset { ack: Seq::new(77), code: ResetCode::Closed, data: [0; 3] });
    line.expect_nothing();
    line.send_request(ServiceCode::new(1));
    assert_eq!(numbers(&mut line).0, 8, "Bad Service Code");
    line.send_request(ServiceCode::INVALID);
    assert_eq!(numbers(&mut line).0, 8);
    assert_eq!(line.connection.state(), State::Listen);
}

#[test]
fn data_do_not_complete_a_handshake_but_an_ack_with_data_does() {
    let mut line = Timeline::server();
    line.send_request(SERVICE);
    let response = line.expect(PacketType::Response);
    line.send_with(Body::Data, &[], b"early");
    assert_eq!(line.expect(PacketType::Sync).ack(), ISR + 1, "step 7");
    assert_eq!(line.connection.state(), State::Respond);
    line.send_with(Body::DataAck { ack: response.header.seq }, &[], b"hello");
    assert_eq!(line.events, [Event::Connected, Event::Received(b"hello".to_vec())]);
}

#[test]
fn data_on_a_request_are_declined() {
    let mut line = Timeline::server();
    line.send_with(Body::Request { service: SERVICE }, &[], b"too early");
    let response = line.expect(PacketType::Response);
    assert!(response.has(Opt::DataDropped(&[0x80])), "Drop Code 0, Protocol Constraints (§8.1.3)");
    line.send(Body::Ack { ack: response.header.seq });
    assert_eq!(line.events, [Event::Connected]);
}

#[test]
fn init_cookies_are_repeated_until_the_connection_is_open() {
    let cookies = [Opt::InitCookie(b"one"), Opt::InitCookie(b"two")];
    let mut line = Timeline::client();
    let request = line.expect(PacketType::Request);
    line.send_with(Body::Response { ack: request.header.seq, service: SERVICE }, &cookies, b"");
    let ack = line.expect(PacketType::Ack);
    assert!(cookies.iter().all(|&cookie| ack.has(cookie)));
    line.pass(MS * 200);
    let again = line.expect(PacketType::Ack);
    assert!(cookies.iter().all(|&cookie| again.has(cookie)));
    line.send(Body::Sync { ack: again.header.seq });
    assert!(line.expect(PacketType::SyncAck).has(cookies[0]), "every packet in PARTOPEN");
    line.send(Body::Ack { ack: again.header.seq });
    line.send(Body::Sync { ack: again.header.seq });
    assert!(!line.expect(PacketType::SyncAck).has(cookies[0]));
}
