//! Tests of received data that is unwanted, corrupt or without buffer space: the report to the sender, and its response
//! (RFC 4340 §9.2, §9.3, §11.6, §11.7).

use std::net::{IpAddr, Ipv4Addr};

use timeous_core::{Duration, Rate};
use timeous_dccp::{Body, Ccid, Config, Encapsulation, Event, Feature, Opt, PacketType, Seq, State};

use crate::link::LinkConfig;
use crate::pair::Pair;
use crate::script::{ISS, Timeline};
use crate::source::Step;

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

/// The acknowledgement of what the peer has sent, once it is due.
#[track_caller]
fn acknowledgement(line: &mut Timeline) -> crate::script::Seen {
    line.pass(MS * 30);
    let ack = line.expect(PacketType::Ack);
    line.expect_nothing();
    ack
}

fn data_of(line: &mut Timeline, len: usize) {
    line.send_with(Body::DataAck { ack: Seq::new(ISS + 1) }, &[], &vec![7; len]);
}

fn received(line: &Timeline) -> usize {
    line.events.iter().filter(|event| matches!(event, Event::Received(_))).count()
}

#[test]
fn what_finds_no_room_is_told_until_the_peer_knows_and_room_is_counted_down() {
    let mut line = Timeline::open_server();
    line.connection.set_receive_room(150, true);
    data_of(&mut line, 100);
    assert_eq!(received(&line), 1);
    let first = acknowledgement(&mut line);
    assert!(first.has(Opt::SlowReceiver) && !first.has(Opt::DataDropped(&[0xa0])));
    data_of(&mut line, 100);
    assert_eq!(received(&line), 1, "50 bytes are left");
    assert!(acknowledgement(&mut line).has(Opt::DataDropped(&[0xa0])), "Drop Code 2 (§11.7)");
    data_of(&mut line, 50);
    assert_eq!(received(&line), 2);
    let again = acknowledgement(&mut line);
    assert!(again.has(Opt::DataDropped(&[0x00, 0xa0])), "the peer has not shown that it knows");
    line.connection.set_receive_room(usize::MAX, false);
    line.send_with(Body::DataAck { ack: again.header.seq }, &[], &[7; 100]);
    assert_eq!(received(&line), 3);
    let last = acknowledgement(&mut line);
    let quiet =
        last.packet().options().all(|item| !matches!(item.unwrap().opt, Opt::DataDropped(_) | Opt::SlowReceiver));
    assert!(quiet, "{last:?}");
    assert_eq!(line.connection.statistics().data_refused, 1);
}

#[test]
fn an_application_that_has_gone_says_so_for_every_packet() {
    let mut line = Timeline::open_server();
    line.connection.stop_receiving();
    data_of(&mut line, 10);
    assert!(acknowledgement(&mut line).has(Opt::DataDropped(&[0x90])), "Drop Code 1");
    data_of(&mut line, 10);
    assert!(acknowledgement(&mut line).has(Opt::DataDropped(&[0x91])), "both");
    assert_eq!(received(&line), 0);
}

#[test]
fn data_that_are_not_what_their_checksum_says_are_dropped_as_corrupt() {
    let mut line = Timeline::open_server();
    // The CRC-32c of "123456789" (RFC 3720 and others).
    let good = [Opt::DataChecksum(0xe306_9283)];
    let ack = Seq::new(ISS + 1);
    line.send_with(Body::DataAck { ack }, &good, b"123456789");
    assert_eq!(received(&line), 1);
    acknowledgement(&mut line);
    line.send_with(Body::DataAck { ack }, &good, b"123456780");
    assert_eq!(received(&line), 1);
    assert!(acknowledgement(&mut line).has(Opt::DataDropped(&[0xb0])), "Drop Code 3 (§9.3)");
    // On a packet without data of the application's: the CRC of nothing is zero.
    line.send_with(Body::Ack { ack }, &[Opt::DataChecksum(0)], b"");
    line.send_with(Body::Ack { ack }, &[Opt::DataChecksum(1)], b"");
    data_of(&mut line, 1);
    assert!(acknowledgement(&mut line).has(Opt::DataDropped(&[0x00, 0xb0, 0x00, 0xb0])));
    assert_eq!(line.connection.statistics().data_refused, 2);
}

/// An open client that has sent one packet of data; its acknowledgement, with these options, has come.
fn told(options: &[Opt<'_>]) -> Timeline {
    let mut line = Timeline::open_client();
    line.pass(MS * 100);
    line.take();
    line.source.push(line.now, vec![7; 100]);
    line.drain();
    let data = line.take().pop().expect("a packet of data");
    assert!(data.header.packet_type().carries_data());
    line.pass(MS * 40);
    let vector = [Opt::AckVector { nonce: false, vector: &[0] }];
    line.send_with(Body::Ack { ack: data.header.seq }, &[&vector[..], options].concat(), b"");
    line.take();
    line
}

#[test]
fn a_sender_whose_data_nobody_wants_sends_no_more() {
    let mut line = told(&[Opt::DataDropped(&[0x90])]);
    assert!(line.events.contains(&Event::NotListening));
    assert_eq!(line.connection.statistics().data_dropped, 1);
    line.source.push(line.now, vec![7; 100]);
    line.pass(SEC);
    assert!(line.take().iter().all(|seen| !seen.header.packet_type().carries_data()));
}

#[test]
fn a_sender_whose_data_broke_a_rule_waits_a_round_trip() {
    let mut line = told(&[Opt::DataDropped(&[0x80])]);
    line.source.push(line.now, vec![7; 100]);
    line.drain();
    assert!(line.take().is_empty(), "the constraint may hold still (§11.7.2)");
    line.pass(SEC);
    assert!(line.take().iter().any(|seen| seen.header.packet_type().carries_data()), "it was one packet's");
    assert!(!line.events.contains(&Event::NotListening));
}

#[test]
fn what_a_receiver_says_of_packets_that_did_not_arrive_is_no_news() {
    // Of packets before the first one, and of the one after.
    let line = told(&[Opt::DataDropped(&[0x00, 0xaf, 0xaf])]);
    assert_eq!(line.connection.statistics().data_dropped, 0);
    assert_eq!(line.connection.statistics().acked, 1);
}

/// A client that has much to send, to a server that asks for no more after a second if `slow`; what it has sent after
/// three.
fn sent_to(ccid: Ccid, slow: bool) -> u64 {
    let link = LinkConfig { delay: MS * 50, ..LinkConfig::default() };
    let config = Config { keep_alive: None, ..Config::default() }.with_ccids(&[ccid]);
    let mut pair = Pair::with(config.clone(), config, [link.clone(), link], 5);
    pair.connect();
    for n in 0..30 {
        if slow && n == 5 {
            pair.server.connection.set_receive_room(usize::MAX, true);
        }
        while pair.client.source.waiting() < 2_000 {
            pair.client.source.push(pair.now, vec![7; 1_000]);
        }
        pair.run_for(MS * 100);
    }
    let statistics = pair.client.connection.statistics();
    assert_eq!(statistics.slow_receiver > 0, slow);
    assert_eq!((statistics.lost, statistics.data_dropped), (0, 0));
    statistics.data_sent
}

#[test]
fn a_sender_goes_no_faster_while_its_receiver_is_slow() {
    for ccid in [Ccid::Ccid2, Ccid::Ccid3] {
        let (free, held) = (sent_to(ccid, false), sent_to(ccid, true));
        // The window of the fifth round trip, twenty-five times: slow start would have doubled it each time.
        assert!(held < free / 4, "{ccid}: {held} and {free}");
    }
}

#[test]
fn an_overrun_receiver_slows_its_sender_down_and_nothing_counts_as_arrived_that_was_dropped() {
    let link = LinkConfig { delay: MS * 20, ..LinkConfig::default() };
    let mut pair = Pair::with(Config::default(), Config::default(), [link.clone(), link], 6);
    pair.connect();
    for _ in 0..200 {
        // Room for two packets in each round trip.
        pair.server.connection.set_receive_room(2_000, true);
        while pair.client.source.waiting() < 200 {
            pair.client.source.push(pair.now, vec![7; 1_000]);
        }
        pair.run_for(MS * 40);
    }
    pair.server.connection.set_receive_room(usize::MAX, false);
    pair.run_until(SEC * 60, |pair| pair.client.source.is_settled());
    let (client, server) = (pair.client.connection.statistics(), pair.server.connection.statistics());
    assert!(client.data_dropped > 0 && client.data_dropped == server.data_refused, "{client:?} {server:?}");
    assert_eq!(client.acked, pair.server.received.len() as u64);
    let steps = pair.client.source.fates.values();
    let lost = steps.filter(|steps| steps.contains(&Step::Lost)).count() as u64;
    assert_eq!(lost, client.data_dropped + client.lost);
    pair.client.source.assert_one_fate_each();
}

/// A client whose rate is CCID 3's and that has much to send; the server is slow if `slow`, and from the third second on has
/// room for so many bytes in each tenth of a second.
fn rated(slow: bool, room: usize) -> (u64, u64) {
    let link = LinkConfig { delay: MS * 50, rate: Some(Rate::from_kbps(4_000)), ..LinkConfig::default() };
    let config = Config { keep_alive: None, ..Config::default() }.with_ccids(&[Ccid::Ccid3]);
    let mut pair = Pair::with(config.clone(), config, [link.clone(), link], 5);
    pair.connect();
    let mut before = 0;
    for n in 0..60 {
        if n >= 30 {
            pair.server.connection.set_receive_room(room, slow);
        }
        if n == 30 {
            before = pair.client.connection.statistics().data_sent;
        }
        while pair.client.source.waiting() < 500 {
            pair.client.source.push(pair.now, vec![7; 1_000]);
        }
        pair.run_for(MS * 100);
    }
    let statistics = pair.client.connection.statistics();
    assert_eq!(statistics.slow_receiver > 0, slow);
    (statistics.data_sent - before, statistics.data_dropped)
}

#[test]
fn a_rate_follows_its_receivers_trouble() {
    let (free, _) = rated(false, usize::MAX);
    // Twenty packets find room in each round trip, where forty come.
    let (overrun, dropped) = rated(false, 20_000);
    assert!(dropped > 0 && overrun < free * 3 / 4, "{overrun} and {free}, {dropped} dropped");
}

/// An open pair with data from the client: the packet with the last of them is corrupt.
fn corrupted(encapsulation: Encapsulation, client: Config, server: Config) -> Pair {
    let link = LinkConfig { delay: MS * 10, ..LinkConfig::default() };
    let with = |config: Config| Config { encapsulation, ..config };
    let mut pair = Pair::with(with(client), with(server), [link.clone(), link], 7);
    pair.connect();
    pair.run_for(SEC);
    for n in 0..5 {
        pair.client.source.push(pair.now, vec![n; 100]);
        pair.settle();
        if n == 4 {
            pair.links[0].corrupt_last();
        }
        pair.run_for(MS * 100);
    }
    // A timeout's worth, so that a packet that was ignored is known to be lost.
    pair.run_for(SEC * 5);
    assert_eq!(pair.server.received[..4], [0, 1, 2, 3].map(|n| vec![n; 100]));
    pair
}

fn native() -> Encapsulation {
    let host = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Encapsulation::Native { source: host, destination: host }
}

#[test]
fn a_data_checksum_tells_corruption_in_udp_too_and_the_sender_hears_of_it() {
    for encapsulation in [Encapsulation::Udp, native()] {
        let sums = Config { data_checksum: true, ..Config::default() };
        // Natively the header's own checksum would see it first, did it cover the data.
        let covered = Config { checksum_coverage: 1, ..sums.clone() };
        let pair = corrupted(encapsulation, covered, Config { min_checksum_coverage: 1, ..sums });
        assert_eq!(pair.client.connection.features().remote(Feature::CheckDataChecksum), 1);
        assert_eq!(pair.server.received.len(), 4);
        let (client, server) = (pair.client.connection.statistics(), pair.server.connection.statistics());
        assert_eq!((client.data_dropped, server.data_refused, server.malformed), (1, 1, 0), "{encapsulation:?}");
    }
}

#[test]
fn without_one_corrupt_data_are_delivered_where_no_checksum_covers_them() {
    let covered = Config { checksum_coverage: 1, ..Config::default() };
    let pair = corrupted(native(), covered.clone(), Config { min_checksum_coverage: 1, ..Config::default() });
    assert_eq!(pair.server.received.len(), 5);
    assert_ne!(pair.server.received[4], vec![4; 100], "it is the last byte that differs");
    // A receiver that wants all covered gets that, and ignores the packet; so does one that wants more covered.
    for least in [0, 2] {
        let server = Config { min_checksum_coverage: least, ..Config::default() };
        let pair = corrupted(native(), covered.clone(), server);
        assert_eq!((pair.server.received.len(), pair.server.connection.statistics().malformed), (4, 1));
    }
    // Where less would do than is offered, what is offered is sent: 16 bytes are covered.
    let more = Config { checksum_coverage: 5, ..Config::default() };
    let pair = corrupted(native(), more, Config { min_checksum_coverage: 2, ..Config::default() });
    assert_eq!(pair.client.connection.features().remote(Feature::MinChecksumCoverage), 2, "the server has the say");
    assert_eq!(pair.server.received.len(), 5);
}

#[test]
fn data_with_less_coverage_than_was_agreed_on_are_refused() {
    let mut line = Timeline::open_server();
    let mut header = timeous_dccp::Header::new(
        crate::script::PEER,
        crate::script::LOCAL,
        Seq::new(line.peer_seq()),
        Body::DataAck { ack: Seq::new(ISS + 1) },
    );
    header.cscov = 1;
    line.send_header(&header, &[], b"covered by nothing", timeous_core::Ecn::NotEct);
    assert_eq!(received(&line), 0);
    assert!(acknowledgement(&mut line).has(Opt::DataDropped(&[0x80])), "Drop Code 0 (§9.2.1)");
}

#[test]
fn simultaneous_opens_are_refused() {
    // Two clients with each other's ports: neither is a server, and there is no simultaneous open (§8.5, step 4).
    let mut line = Timeline::client();
    line.expect(PacketType::Request);
    line.send_request(crate::pair::SERVICE);
    let reset = line.expect(PacketType::Reset);
    let (code, [kind, ..]) = reset.reset();
    assert_eq!((code, kind), (4, PacketType::Request.number()), "Packet Error, and which type it was");
    assert_eq!(line.connection.state(), State::Request, "it goes on asking");
}
