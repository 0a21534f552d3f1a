//! Timelines of invalid sequence numbers, unexpected packets and fatal options (RFC 4340 §7.5, §8.5 steps 5 to 8).

use timeous_core::{Duration, Ecn};
use timeous_dccp::{Body, CloseReason, Event, Header, Opt, PacketType, ResetCode, ResetReason, Seq, State};

use crate::pair::SERVICE;
use crate::script::{ISR, ISS, LOCAL, PEER, Timeline};

const SEC: Duration = Duration::from_secs(1);

#[test]
fn invalid_numbers_are_answered_by_a_sync_and_change_nothing() {
    let mut line = Timeline::open_server();
    // W is 100: valid are ISR (at the beginning) up to GSR + 75.
    let gsr = ISR + 2;
    for seq in [ISR - 1, gsr + 76, 7] {
        line.send_at(seq, Body::Data, &[], b"bad");
        assert_eq!(line.expect(PacketType::Sync).ack(), seq);
    }
    line.send(Body::Ack { ack: Seq::new(ISS + 500) });
    assert_eq!(line.expect(PacketType::Sync).ack(), line.peer_seq() - 1, "never sent");
    line.send_at(gsr + 76, Body::Reset { ack: Seq::new(ISS), code: ResetCode::Closed, data: [0; 3] }, &[], b"");
    assert_eq!(line.expect(PacketType::Sync).ack(), gsr, "a Reset is challenged with GSR");
    line.send_at(ISR - 1, Body::Sync { ack: Seq::new(ISS) }, &[], b"");
    line.send_at(ISR - 1, Body::SyncAck { ack: Seq::new(ISS) }, &[], b"");
    line.expect_nothing();
    assert!(line.events.is_empty());
    assert_eq!(line.connection.statistics().sequence_invalid, 7);
    assert_eq!(line.connection.state(), State::Open);
}

#[test]
fn syncs_are_rate_limited() {
    let mut line = Timeline::open_server();
    for seq in 0..100 {
        line.send_at(seq, Body::Data, &[], b"");
    }
    assert_eq!(line.take().len(), 8);
    line.pass(SEC);
    for seq in 0..100 {
        line.send_at(seq, Body::Data, &[], b"");
    }
    assert_eq!(line.take().len(), 8);
}

#[test]
fn out_of_step_ends_get_into_step_again() {
    // The first example of §7.5.6, seen from B.
    let mut line = Timeline::open_server();
    line.pass(SEC);
    let far = ISR + 200;
    line.send_at(far, Body::Data, &[], b"lost");
    let sync = line.expect(PacketType::Sync);
    assert_eq!(sync.ack(), far);
    line.send_at(far + 1, Body::SyncAck { ack: sync.header.seq }, &[], b"");
    line.send_at(far + 2, Body::Data, &[], b"ok");
    assert_eq!(line.events, [Event::Received(b"ok".to_vec())]);
}

#[test]
fn a_sync_is_answered_with_its_own_number() {
    let mut line = Timeline::open_client();
    let seq = line.peer_seq();
    line.send(Body::Sync { ack: Seq::new(ISS + 1) });
    let answer = line.expect(PacketType::SyncAck);
    assert_eq!(answer.ack(), seq);
    // One that comes late is answered, too, though others came after it.
    line.send_at(seq + 2, Body::Ack { ack: Seq::new(ISS + 1) }, &[], b"");
    line.send_at(seq + 1, Body::Sync { ack: Seq::new(ISS + 1) }, &[], b"");
    assert_eq!(line.expect(PacketType::SyncAck).ack(), seq + 1);
}

#[test]
fn step_7_answers_packets_of_the_wrong_type_with_a_sync() {
    let ack = Seq::new(ISS + 1);
    for body in [Body::CloseReq { ack }, Body::Response { ack, service: SERVICE }, Body::Request { service: SERVICE }] {
        let mut line = Timeline::open_server();
        let seq = line.peer_seq();
        line.send(body);
        assert_eq!(line.expect(PacketType::Sync).ack(), seq, "{body:?} at a server");
        assert_eq!(line.connection.state(), State::Open);
        assert_eq!(line.connection.statistics().unexpected, 1);
    }
    for body in [Body::Request { service: SERVICE }, Body::Response { ack, service: SERVICE }] {
        let mut line = Timeline::open_client();
        let seq = line.peer_seq();
        line.send(body);
        assert_eq!(line.expect(PacketType::Sync).ack(), seq, "{body:?} at a client");
    }
}

#[test]
fn a_leftover_of_the_handshake_is_harmless() {
    let mut line = Timeline::server();
    line.send_request(SERVICE);
    let response = line.expect(PacketType::Response);
    line.send_at(ISR + 2, Body::Ack { ack: response.header.seq }, &[], b"");
    line.expect(PacketType::Ack);
    line.send_at(ISR + 1, Body::Request { service: SERVICE }, &[], b"");
    assert!(line.take().iter().all(|seen| seen.header.packet_type() == PacketType::Ack));
    assert_eq!(line.connection.state(), State::Open);
}

#[test]
fn short_numbers_are_ignored_as_long_as_they_are_not_allowed() {
    let mut line = Timeline::open_server();
    let header = Header { extended: false, ..Header::new(PEER, LOCAL, Seq::new(line.peer_seq()), Body::Data) };
    line.send_header(&header, &[], b"short", Ecn::NotEct);
    line.expect_nothing();
    assert!(line.events.is_empty());
}

#[test]
fn what_is_no_packet_of_this_connection_is_dropped() {
    let mut line = Timeline::open_server();
    line.send_bytes(b"", Ecn::NotEct);
    line.send_bytes(&[0xff; 40], Ecn::NotEct);
    let elsewhere = Header::new(PEER + 1, LOCAL, Seq::new(line.peer_seq()), Body::Data);
    line.send_header(&elsewhere, &[], b"x", Ecn::NotEct);
    line.expect_nothing();
    assert_eq!(line.connection.statistics().malformed, 3);
}

#[test]
fn mandatory_options_that_mean_nothing_here_reset_the_connection() {
    let data = [9, 8];
    let unknown = [Opt::Mandatory, Opt::CcidSpecific { kind: 130, data: &data }];
    for (options, code, said) in [
        (&unknown[..], ResetCode::MandatoryError, [130, 9, 8]),
        (&[Opt::Mandatory, Opt::Mandatory], ResetCode::OptionError, [1, 0, 0]),
    ] {
        let mut line = Timeline::open_server();
        line.send_with(Body::Ack { ack: Seq::new(ISS + 1) }, options, b"");
        let reset = line.expect(PacketType::Reset);
        assert_eq!(reset.reset(), (code.number(), said));
        let reason = CloseReason::Misbehaved(ResetReason { code, data: said });
        assert_eq!(line.events, [Event::Closed { reason }]);
        assert_eq!(line.connection.state(), State::Closed);
    }
    let mut line = Timeline::open_server();
    line.send_with(Body::Ack { ack: Seq::new(ISS + 1) }, &unknown[1..], b"");
    assert_eq!(line.connection.state(), State::Open, "without Mandatory it is ignored");
}

#[test]
fn a_duplicate_is_not_delivered_again() {
    let mut line = Timeline::open_server();
    let seq = line.peer_seq();
    line.send_with(Body::Data, &[], b"once");
    line.send_at(seq, Body::Data, &[], b"once");
    assert_eq!(line.events, [Event::Received(b"once".to_vec())]);
    assert_eq!(line.connection.statistics().duplicates, 1);
}
