//! Timelines of data, acknowledgements and their options (RFC 4340 §8.2, §11, §13; RFC 4341).

use timeous_core::{Duration, Ecn, Instant, Misuse, Transport};
use timeous_dccp::{Body, Event, Feature, Header, Opt, PacketType, Seq, Side, State, Ticks};

use crate::pair::SERVICE;
use crate::script::{ISS, LOCAL, PEER, Timeline};
use crate::source::Step;

const MS: Duration = Duration::from_millis(1);

/// An open client whose peer has agreed to send Ack Vectors.
fn sender() -> Timeline {
    let mut line = Timeline::client();
    let request = line.expect(PacketType::Request);
    line.send_agreeing(Body::Response { ack: request.header.seq, service: SERVICE }, &request);
    line
}

fn open_sender() -> Timeline {
    let mut line = sender();
    let ack = line.expect(PacketType::Ack);
    line.send(Body::Ack { ack: ack.header.seq });
    assert_eq!(line.connection.state(), State::Open);
    line.pass(MS * 150);
    line.take();
    line
}

fn push(line: &mut Timeline, count: usize) {
    push_sized(line, count, 100);
}

fn push_sized(line: &mut Timeline, count: usize, len: usize) {
    for _ in 0..count {
        line.source.push(line.now, vec![7; len]);
    }
    line.drain();
}

#[test]
fn no_data_are_sent_to_a_peer_that_does_not_send_ack_vectors() {
    let mut line = Timeline::client();
    let request = line.expect(PacketType::Request);
    line.send(Body::Response { ack: request.header.seq, service: SERVICE });
    push(&mut line, 1);
    assert!(line.take().iter().all(|seen| !seen.header.packet_type().carries_data()));
    assert!(line.source.fates.is_empty());
}

#[test]
fn in_partopen_data_carry_an_acknowledgement() {
    let mut line = sender();
    line.expect(PacketType::Ack);
    push(&mut line, 2);
    line.expect(PacketType::DataAck);
    line.expect(PacketType::DataAck);
    assert_eq!(line.connection.state(), State::PartOpen);
}

#[test]
fn a_source_that_never_keeps_its_promise_does_not_make_packets_without_end() {
    let mut line = sender();
    line.source.false_promises = 1_000;
    line.drain();
    assert!(line.take().len() <= 2, "the handshake's Ack, and what was begun for data");
    line.send(Body::Ack { ack: Seq::new(ISS + 1) });
    line.drain();
    assert!(line.take().len() <= 2);
}

#[test]
fn the_initial_window_leaves_at_once_and_no_more() {
    let mut line = open_sender();
    push_sized(&mut line, 40, 1_100);
    let data = line.take().iter().filter(|seen| seen.header.packet_type().carries_data()).count();
    assert_eq!(data, 3, "RFC 3390: 4380 bytes");
}

#[test]
fn three_later_packets_tell_a_loss_and_each_fate_is_told_once() {
    let mut line = open_sender();
    push(&mut line, 4);
    let sent = line.take();
    let data: Vec<u64> =
        sent.iter().filter(|seen| seen.header.packet_type().carries_data()).map(|seen| seen.seq()).collect();
    assert!(data.len() >= 3, "{data:?}");
    line.pass(MS * 50);
    line.source.push(line.now, vec![7; 100]);
    line.drain();
    // All but the first have arrived, with a packet that is not data in between, perhaps.
    let newest = *data.last().unwrap();
    let later = (newest - data[0] - 1) as u8;
    let vector = [later, 0xc0];
    for _ in 0..2 {
        line.send_with(Body::Ack { ack: Seq::new(newest) }, &[Opt::AckVector { nonce: false, vector: &vector }], b"");
    }
    let acked = line.events.iter().filter(|event| matches!(event, Event::Acked { .. })).count();
    let lost: Vec<&Event> = line.events.iter().filter(|event| matches!(event, Event::Lost { .. })).collect();
    assert_eq!(acked, data.len() - 1);
    assert_eq!(lost.len(), usize::from(data.len() > 3));
}

/// Found by `timeous-lab bloat`: what came too late was thought to be of use, and what refers to it went on being sent.
#[test]
fn an_acknowledgement_tells_when_its_packet_came() {
    let mut line = open_sender();
    let arrival = |line: &mut Timeline, wait, elapsed| {
        push(line, 1);
        let (sent_at, data) =
            (line.now, line.take().iter().find(|seen| seen.header.packet_type().carries_data()).unwrap().seq());
        line.pass(MS * wait);
        let ack = Body::Ack { ack: Seq::new(data) };
        let held = Opt::ElapsedTime(Ticks::elapsed(MS * elapsed));
        line.send_with(ack, &[held, Opt::AckVector { nonce: false, vector: &[0x00] }], b"");
        let arrival = line.events.drain(..).find_map(|event| match event {
            Event::Acked { at, exactly, .. } => Some((at, exactly)),
            _ => None,
        });
        let (at, exactly) = arrival.unwrap();
        [at, exactly.unwrap().actual].map(|at| at.saturating_since(sent_at))
    };
    arrival(&mut line, 60, 20);
    assert_eq!(arrival(&mut line, 60, 20), [MS * 20; 2], "a smallest round trip of 40 ms");
    assert_eq!(arrival(&mut line, 90, 0), [MS * 70; 2], "the queue is thought to be on the way there");
}

/// Found with a hundred streams on a busy host: their packets waited for the receiver's thread, and their acknowledgements for
/// the sender's, which congestion control took for a queue.
#[test]
fn the_time_for_which_an_acknowledgement_waits_on_this_host_is_none_of_the_round_trip() {
    let mut line = open_sender();
    let mut round = |wait, waited| {
        push(&mut line, 1);
        let sent = line.take().into_iter().find(|seen| seen.header.packet_type().carries_data()).unwrap();
        line.pass(MS * wait);
        line.waited = MS * waited;
        let vector = Opt::AckVector { nonce: false, vector: &[0x00] };
        line.send_with(
            Body::Ack { ack: Seq::new(sent.seq()) },
            &[Opt::ElapsedTime(Ticks::elapsed(MS * 5)), vector],
            b"",
        );
        let at =
            line.events.drain(..).find_map(|event| if let Event::Acked { at, .. } = event { Some(at) } else { None });
        (line.path().latest_rtt.unwrap(), at.unwrap() - sent.at)
    };
    assert_eq!(round(45, 0).0, MS * 40);
    let (rtt, arrived) = round(145, 100);
    assert_eq!((rtt, arrived), (MS * 40, MS * 20), "half of the round trip is the way there");
}

#[test]
fn without_feedback_all_is_lost_and_the_timer_backs_off() {
    let mut line = open_sender();
    push(&mut line, 1);
    line.take();
    line.pass(Duration::from_secs(8));
    assert_eq!(line.events.iter().filter(|event| matches!(event, Event::Lost { .. })).count(), 1);
    assert_eq!(line.connection.statistics().timeouts, 1);
    let probes: Vec<u64> = line
        .take()
        .iter()
        .filter(|seen| seen.header.packet_type() == PacketType::Sync)
        .map(|seen| (seen.at - Instant::ZERO).as_millis())
        .collect();
    // Sent at 150 ms, lost a second later; then the peer is asked for a sign of life after 2 and 4 s more.
    assert_eq!(probes, [3_150, 7_150]);
}

/// Found by `timeous-lab dbat-buffering`: the Congestion Manager had it under way for ever, and a window of one packet never
/// opened again.
#[test]
fn what_comes_after_its_timeout_with_news_of_nothing_else_is_not_under_way_any_more() {
    let mut line = open_sender();
    push(&mut line, 1);
    line.take();
    line.pass(Duration::from_secs(4));
    assert_eq!(line.connection.statistics().timeouts, 1);
    let probe = line.take().into_iter().rfind(|seen| seen.header.packet_type() == PacketType::Sync).unwrap();
    // The probe, and all before it.
    let vector = [Opt::AckVector { nonce: false, vector: &[0x03] }];
    line.send_with(Body::SyncAck { ack: probe.header.seq }, &vector, b"");
    assert_eq!(line.outstanding(), 0);
    push(&mut line, 1);
    assert!(line.take().iter().any(|seen| seen.header.packet_type().carries_data()));
}

/// Found by `timeous-lab bloat`: a burst of losses took one probe after the other, and the stream was silent for twenty seconds.
#[test]
fn where_a_round_trip_is_known_the_first_timeouts_are_equally_long() {
    let mut line = open_sender();
    push(&mut line, 1);
    let data = line.take().iter().find(|seen| seen.header.packet_type().carries_data()).unwrap().seq();
    line.pass(MS * 50);
    let vector = [0x00];
    line.send_with(Body::Ack { ack: Seq::new(data) }, &[Opt::AckVector { nonce: false, vector: &vector }], b"");
    let mut lost_at = Vec::new();
    for _ in 0..9 {
        push(&mut line, 1);
        let (from, timeouts) = (line.now, line.connection.statistics().timeouts);
        while line.connection.statistics().timeouts == timeouts && line.now - from < Duration::from_secs(10) {
            line.pass(MS * 10);
        }
        lost_at.push((line.now - from).as_millis() / 50);
    }
    assert!(lost_at[..7].iter().all(|&after| after == lost_at[0]), "{lost_at:?}");
    assert!(lost_at[7] >= 2 * lost_at[0] - 1 && lost_at[8] >= 4 * lost_at[0] - 3, "{lost_at:?}");
}

#[test]
fn every_second_data_packet_is_acknowledged_and_a_lone_one_soon() {
    let mut line = Timeline::open_server();
    line.send_with(Body::Data, &[], b"1");
    line.expect_nothing();
    line.send_with(Body::Data, &[], b"2");
    assert_eq!(line.expect(PacketType::Ack).ack(), line.peer_seq() - 1);
    line.send_with(Body::Data, &[], b"3");
    line.pass(MS * 19);
    line.expect_nothing();
    line.pass(MS);
    let ack = line.expect(PacketType::Ack);
    assert!(ack.has(Opt::ElapsedTime(Ticks::new(2_000))), "20 ms");
    line.pass(MS * 500);
    line.expect_nothing();
}

#[test]
fn an_acknowledgement_tells_the_time_that_its_packet_waited_on_this_host() {
    let mut line = Timeline::open_server();
    line.pass(MS * 100);
    line.waited = MS * 30;
    line.send_with(Body::Data, &[Opt::Timestamp(Ticks::new(77))], b"1");
    line.send_with(Body::Data, &[], b"2");
    let ack = line.expect(PacketType::Ack);
    assert!(ack.has(Opt::ElapsedTime(Ticks::new(3_000))), "30 ms");
    assert!(ack.has(Opt::TimestampEcho { echo: Ticks::new(77), elapsed: Ticks::new(3_000) }));
}

#[test]
fn an_acknowledgement_tells_when_it_left_to_a_peer_that_takes_our_options() {
    for accepts in [false, true] {
        let mut line = Timeline::open_server();
        if accepts {
            let change = Opt::Change { side: Side::R, feature: Feature::TakeFragments.number(), values: &[1] };
            line.send_with(Body::Ack { ack: Seq::new(ISS) }, &[change], b"");
        }
        line.pass(MS * 100);
        line.send_with(Body::Data, &[], b"1");
        line.send_with(Body::Data, &[], b"2");
        let ack = line.take().pop().unwrap();
        assert_eq!(ack.has(Opt::SentAt(Ticks::timestamp(line.now))), accepts);
    }
}

#[test]
fn a_gap_and_a_mark_are_acknowledged_at_once() {
    let mut line = Timeline::open_server();
    let seq = line.peer_seq();
    line.send_at(seq + 1, Body::Data, &[], b"after a gap");
    line.expect(PacketType::Ack);
    let header = Header::new(PEER, LOCAL, Seq::new(seq + 2), Body::Data);
    line.send_header(&header, &[], b"marked", Ecn::Ce);
    let ack = line.expect(PacketType::Ack);
    let vector = [0x40, 0x00, 0xc0, 0x02];
    assert!(ack.has(Opt::AckVector { nonce: false, vector: &vector }), "marked, received, missing, three received");
    assert_eq!(ack.ecn, Ecn::Ect0);
}

#[test]
fn timestamps_are_echoed_with_the_time_they_lay_here() {
    let mut line = Timeline::open_server();
    line.send_with(Body::Data, &[Opt::Timestamp(Ticks::new(77))], b"x");
    line.pass(MS * 20);
    let ack = line.expect(PacketType::Ack);
    assert!(ack.has(Opt::TimestampEcho { echo: Ticks::new(77), elapsed: Ticks::new(2_000) }));
    line.send(Body::Sync { ack: Seq::new(ISS + 1) });
    let next = line.expect(PacketType::SyncAck);
    assert!(!next.has(Opt::TimestampEcho { echo: Ticks::new(77), elapsed: Ticks::new(2_000) }), "once");
}

#[test]
fn ndp_counts_count_packets_without_data() {
    let mut line = Timeline::server();
    let wants = [Opt::Change { side: timeous_dccp::Side::R, feature: Feature::SendNdpCount.number(), values: &[1] }];
    line.send_with(Body::Request { service: SERVICE }, &wants, b"");
    let response = line.expect(PacketType::Response);
    line.send(Body::Ack { ack: response.header.seq });
    let first = line.expect(PacketType::Ack);
    assert!(!first.has(Opt::NdpCount(1)), "a Response counts as data");
    line.send(Body::Sync { ack: first.header.seq });
    assert!(line.expect(PacketType::SyncAck).has(Opt::NdpCount(1)));
    line.send(Body::Sync { ack: first.header.seq });
    assert!(line.expect(PacketType::SyncAck).has(Opt::NdpCount(2)));
}

#[test]
fn what_an_ack_carries_is_not_data() {
    let mut line = Timeline::open_server();
    line.send_with(Body::Ack { ack: Seq::new(ISS + 1) }, &[], b"padding");
    line.send_with(Body::Sync { ack: Seq::new(ISS + 1) }, &[], b"padding");
    assert!(line.events.is_empty());
}

#[test]
fn a_driver_that_breaks_the_order_is_told_and_nothing_changes() {
    let mut line = open_sender();
    let mut cm = timeous_cm::Manager::default();
    let before = line.connection.statistics().packets_received;
    let late = line.now;
    let early = Instant::ZERO;
    let went_back = Err(Misuse::TimeWentBack { last: late, now: early });
    line.connection.handle_timeout(late, &mut cm).unwrap();
    assert_eq!(line.connection.poll_timeout(), Err(Misuse::NotDrained));
    assert_eq!(line.connection.handle_timeout(early, &mut cm), went_back);
    assert_eq!(line.connection.handle_datagram(early, &mut cm, b"x", Ecn::NotEct), went_back);
    assert_eq!(line.connection.close(early), went_back);
    let mut packet = vec![1, 2, 3];
    assert_eq!(
        line.connection.poll_transmit(late, &mut cm, &mut line.source, &mut packet),
        Err(Misuse::BufferNotEmpty { len: 3 })
    );
    line.drain();
    assert_eq!(line.connection.state(), State::Open);
    assert_eq!(line.connection.statistics().packets_received, before);
    assert!(line.connection.poll_timeout().is_ok());
    assert_eq!(line.source.count(Step::Pulled), 0);
}

/// The peer acknowledges everything up to `newest`, in one run.
fn acknowledge(line: &mut Timeline, newest: u64) {
    let vector = [(newest - ISS) as u8];
    line.send_with(Body::Ack { ack: Seq::new(newest) }, &[Opt::AckVector { nonce: false, vector: &vector }], b"");
}

#[test]
fn a_peer_that_waits_for_a_second_packet_before_it_acknowledges_is_asked_not_to() {
    let mut line = open_sender();
    let asked = |values| Opt::Change { side: Side::L, feature: Feature::AckRatio.number(), values };
    push(&mut line, 1);
    line.pass(Duration::from_secs(2));
    assert_eq!(line.connection.statistics().timeouts, 1);
    push(&mut line, 1);
    let newest = line.take().last().unwrap().seq();
    acknowledge(&mut line, newest);
    line.pass(Duration::from_secs(1));
    let change = line.take().into_iter().find(|seen| seen.has(asked(&[0, 1]))).expect("an Ack Ratio of one");
    line.send_agreeing(Body::Ack { ack: change.header.seq }, &change);
    // Once the window holds four packets there is always a second one.
    let back = (0..12).any(|_| {
        push(&mut line, 6);
        line.pass(MS * 100);
        let seen = line.take();
        acknowledge(&mut line, seen.last().map_or(newest, |seen| seen.seq()));
        seen.iter().any(|seen| seen.has(asked(&[0, 2])))
    });
    assert!(back);
}

#[test]
fn data_carry_no_acknowledgement_that_the_peer_may_not_take_any_more() {
    let mut line = open_sender();
    let narrow = Opt::Change { side: Side::L, feature: Feature::SequenceWindow.number(), values: &[0, 0, 0, 0, 0, 32] };
    line.send_with(Body::Data, &[], b"");
    line.send_with(Body::Ack { ack: Seq::new(ISS) }, &[narrow], b"");
    line.pass(Duration::from_secs(1));
    line.take();
    // Eight in a round trip: in three of them fewer than the window.
    let kinds = |line: &mut Timeline| -> Vec<PacketType> {
        push(line, 1);
        line.take().iter().map(|seen| seen.header.packet_type()).collect()
    };
    let burst = |line: &mut Timeline, count: usize| {
        line.pass(Duration::from_secs(5));
        line.take();
        for _ in 0..count {
            line.send_with(Body::Data, &[], b"");
        }
        line.take();
        line.send_with(Body::Data, &[], b"");
    };
    burst(&mut line, 8);
    assert_eq!(kinds(&mut line), [PacketType::DataAck]);
    burst(&mut line, 12);
    assert_eq!(kinds(&mut line), [PacketType::Data]);
    line.send_with(Body::Data, &[], b"");
    assert_eq!(line.take().len(), 1, "the acknowledgement leaves by itself");
}
