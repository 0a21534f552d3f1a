//! Timelines of the end of connections: CLOSEREQ, CLOSING, TIMEWAIT, Resets (RFC 4340 §8.3).

use timeous_core::{Duration, Instant};
use timeous_dccp::{Body, CloseReason, Event, PacketType, ResetCode, ResetReason, Seq, State};

use crate::pair::SERVICE;
use crate::script::{ISR, ISS, Timeline};

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

fn closed(reason: CloseReason) -> [Event; 1] {
    [Event::Closed { reason }]
}

fn reset(ack: u64, code: ResetCode) -> Body {
    Body::Reset { ack: Seq::new(ack), code, data: [0; 3] }
}

#[test]
fn a_client_that_closes_ends_in_timewait() {
    let mut line = Timeline::open_client();
    line.close();
    let close = line.expect(PacketType::Close);
    assert_eq!(line.connection.state(), State::Closing);
    line.send(reset(close.seq(), ResetCode::Closed));
    assert_eq!(line.events, closed(CloseReason::Local));
    assert_eq!(line.connection.state(), State::TimeWait);
    line.pass(SEC * 239);
    assert_eq!(line.connection.state(), State::TimeWait);
    line.pass(SEC);
    assert!(line.connection.is_finished());
    line.expect_nothing();
}

#[test]
fn timewait_answers_all_but_resets() {
    let mut line = Timeline::open_client();
    line.close();
    let close = line.expect(PacketType::Close);
    line.send(reset(close.seq(), ResetCode::Closed));
    let seq = line.peer_seq();
    line.send(Body::Ack { ack: Seq::new(600) });
    let refusal = line.expect(PacketType::Reset);
    assert_eq!((refusal.reset().0, refusal.seq(), refusal.ack()), (3, 601, seq), "No Connection, §8.3.1's numbers");
    line.send(reset(600, ResetCode::NoConnection));
    line.expect_nothing();
}

#[test]
fn a_client_closes_when_its_server_asks() {
    let mut line = Timeline::open_client();
    line.send(Body::CloseReq { ack: Seq::new(ISS + 1) });
    let close = line.expect(PacketType::Close);
    line.send(Body::CloseReq { ack: Seq::new(ISS + 1) });
    line.expect_nothing();
    line.send(reset(close.seq(), ResetCode::Closed));
    assert_eq!(line.events, closed(CloseReason::Peer));
    assert_eq!(line.connection.state(), State::TimeWait);
}

#[test]
fn a_server_asks_its_client_to_close() {
    let mut line = Timeline::open_server();
    line.close();
    let request = line.expect(PacketType::CloseReq);
    assert_eq!(line.connection.state(), State::CloseReq);
    line.send(Body::Close { ack: request.header.seq });
    assert_eq!(line.expect(PacketType::Reset).reset().0, 1);
    assert_eq!(line.events, closed(CloseReason::Local));
    assert!(line.connection.is_finished() || line.connection.state() == State::Closed);
}

#[test]
fn a_close_is_answered_by_a_reset_that_tells_what_arrived() {
    for mut line in [Timeline::open_server(), Timeline::open_client()] {
        line.send_with(Body::Data, &[], b"last words");
        let seq = line.peer_seq();
        line.send(Body::Close { ack: Seq::new(ISS + 1) });
        let answer = line.expect(PacketType::Reset);
        assert_eq!((answer.reset(), answer.ack()), ((1, [0; 3]), seq));
        let mut vectors = timeous_dccp::ack_vector::vectors_of(answer.packet().options());
        assert_eq!(vectors.next(), Some(&[(seq - ISR) as u8][..]), "this packet and all before it have arrived");
        assert_eq!(line.events, [Event::Received(b"last words".to_vec()), Event::Closed { reason: CloseReason::Peer }]);
        assert_eq!(line.connection.state(), State::Closed);
    }
}

#[test]
fn close_and_closereq_are_repeated_and_given_up() {
    for (mut line, packet) in
        [(Timeline::open_client(), PacketType::Close), (Timeline::open_server(), PacketType::CloseReq)]
    {
        let start = line.now;
        line.close();
        line.pass(SEC * 30);
        let seen = line.take();
        let times: Vec<u64> = seen.iter().map(|seen| (seen.at - start).as_millis()).collect();
        // Two round trips of the default 200 ms, backing off.
        assert_eq!(times, [0, 400, 1_200, 2_800, 6_000, 12_400, 25_200, 30_000]);
        assert!(seen[..7].iter().all(|seen| seen.header.packet_type() == packet));
        assert_eq!(seen[7].reset().0, 2);
        // The peer may be gone and its Reset lost: no error. Missing data would be one.
        assert_eq!(line.events, closed(CloseReason::Local));
    }
}

#[test]
fn a_peer_that_has_forgotten_all_ends_a_close_as_well() {
    let mut line = Timeline::open_client();
    line.close();
    let close = line.expect(PacketType::Close);
    line.send(reset(close.seq(), ResetCode::NoConnection));
    assert_eq!(line.events, closed(CloseReason::Local));
}

#[test]
fn a_reset_ends_a_connection_in_any_state() {
    let code = ResetCode::AggressionPenalty;
    let said = CloseReason::Reset(ResetReason::plain(code));
    let partopen = || {
        let mut line = Timeline::client();
        let request = line.expect(PacketType::Request);
        line.send(Body::Response { ack: request.header.seq, service: SERVICE });
        line
    };
    let respond = || {
        let mut line = Timeline::server();
        line.send_request(SERVICE);
        line
    };
    let closing = |mut line: Timeline| {
        line.close();
        line
    };
    for mut line in [
        partopen(),
        respond(),
        Timeline::open_client(),
        Timeline::open_server(),
        closing(Timeline::open_client()),
        closing(Timeline::open_server()),
    ] {
        let last = line.take().last().map_or(ISS + 1, |seen| seen.seq());
        line.events.clear();
        line.send(reset(last, code));
        line.expect_nothing();
        assert_eq!(line.events, closed(said));
        assert_eq!(line.connection.state(), State::TimeWait);
    }
}

#[test]
fn abort_resets_at_once_with_the_callers_code() {
    let mut line = Timeline::open_server();
    line.connection.abort(line.now, ResetCode::Aborted).unwrap();
    line.drain();
    assert_eq!(line.expect(PacketType::Reset).reset().0, 2);
    assert_eq!(line.events, closed(CloseReason::Local));
    line.connection.abort(line.now, ResetCode::Aborted).unwrap();
    line.close();
    line.expect_nothing();
    assert_eq!(line.events.len(), 1, "the end is told once");
}

#[test]
fn closing_before_the_handshake_is_over_aborts_it() {
    let mut line = Timeline::client();
    line.expect(PacketType::Request);
    line.close();
    let reset = line.expect(PacketType::Reset);
    assert_eq!((reset.reset().0, reset.ack()), (2, 0));
    assert_eq!(line.events, closed(CloseReason::Local));

    let mut line = Timeline::server();
    line.close();
    line.expect_nothing();
    assert_eq!(line.events, closed(CloseReason::Local));
}

#[test]
fn data_that_arrive_while_closing_are_delivered() {
    let mut line = Timeline::open_client();
    line.close();
    line.expect(PacketType::Close);
    line.send_with(Body::Data, &[], b"late");
    assert_eq!(line.events, [Event::Received(b"late".to_vec())]);
}

#[test]
fn nothing_is_pulled_after_close() {
    let mut line = Timeline::open_client();
    line.close();
    line.source.push(Instant::ZERO, vec![1; 10]);
    line.pass(MS * 300);
    assert_eq!(line.take().len(), 1, "the Close");
    assert!(line.source.fates.is_empty());
}
