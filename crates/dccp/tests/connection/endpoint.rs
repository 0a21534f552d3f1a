//! Tests of an endpoint with many connections over one socket: demultiplexing, limits, refusals, idleness.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use timeous_core::{Duration, Ecn, Instant, Misuse, Rng};
use timeous_dccp::{
    Body, CloseReason, Config, ConnectError, ConnectionId, Encapsulation, Endpoint, EndpointConfig, Event, Header,
    Local, Packet, ResetCode, ResetReason, Seq, ServiceCode, State, packet,
};

use crate::link::LinkConfig;
use crate::pair::SERVICE;
use crate::source::Step;
use crate::world::{Queues, World};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const PORT: u16 = 7_000;

fn world(count: u8, config: &EndpointConfig) -> World {
    let mut world = World::new(count, config, &LinkConfig::default(), 1);
    world.hosts[0].endpoint.listen(PORT, &[SERVICE]);
    world
}

/// Host `from` asks host 0.
fn connect(world: &mut World, from: usize) -> ConnectionId {
    let server = world.hosts[0].address;
    world.hosts[from].endpoint.connect(world.now, server, PORT, SERVICE).unwrap()
}

/// A datagram with this header and nothing more.
pub(crate) fn bare(header: &Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = packet::begin(header, &[], &mut bytes).unwrap();
    packet::finish(&mut bytes, start, Encapsulation::Udp).unwrap();
    bytes
}

pub(crate) fn request(source_port: u16, dest_port: u16, service: ServiceCode) -> Vec<u8> {
    bare(&Header::new(source_port, dest_port, Seq::new(5), Body::Request { service }))
}

fn stranger(n: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, (n >> 8) as u8, n as u8], 9_999))
}

#[test]
fn connections_of_one_udp_4_tuple_are_kept_apart() {
    let mut world = world(3, &EndpointConfig::default());
    let ids: Vec<(usize, ConnectionId)> =
        [1, 1, 1, 2, 2].into_iter().map(|from| (from, connect(&mut world, from))).collect();
    assert!(world.run_until(SEC, |world| {
        let server = &world.hosts[0];
        server.heard.len() == 5 && server.heard.values().all(|heard| heard.connected && heard.incoming)
    }));
    for &(from, id) in &ids {
        for n in 0..20 {
            world.hosts[from].push(world.now, id, format!("{from} {id:?} {n}").into_bytes());
        }
    }
    world.run_for(SEC * 2);
    let mut told = BTreeSet::new();
    for heard in world.hosts[0].heard.values() {
        let who: BTreeSet<String> = heard
            .received
            .iter()
            .map(|bytes| String::from_utf8_lossy(bytes).rsplit_once(' ').unwrap().0.to_string())
            .collect();
        assert_eq!((heard.received.len(), who.len()), (20, 1), "{who:?}");
        told.extend(who);
    }
    assert_eq!(told.len(), 5);
    for &(from, id) in &ids {
        world.hosts[from].queues.0[&id].assert_one_fate_each();
        assert_eq!(world.hosts[from].queues.0[&id].count(Step::Acked), 20);
    }
}

#[test]
fn the_end_is_told_to_both_and_the_place_is_free_again() {
    let mut world = world(2, &EndpointConfig::default());
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    world.hosts[1].endpoint.close(world.now, id).unwrap();
    world.run_for(SEC);
    assert_eq!(world.hosts[1].heard[&id].closed, Some(CloseReason::Local));
    assert_eq!(world.hosts[0].heard.values().next().unwrap().closed, Some(CloseReason::Peer));
    for host in &mut world.hosts {
        host.endpoint.handle_timeout(world.now, &mut host.cm).unwrap();
        assert_eq!(host.endpoint.connections().count(), 0);
    }
    assert_eq!((world.hosts[0].endpoint.lingering(), world.hosts[1].endpoint.lingering()), (0, 1));
    assert!(world.hosts[1].endpoint.close(world.now, id).is_err());
    world.run_for(SEC * 241);
    let host = &mut world.hosts[1];
    host.endpoint.handle_timeout(world.now, &mut host.cm).unwrap();
    assert_eq!(host.endpoint.lingering(), 0);
}

#[test]
fn idle_connections_cost_nothing() {
    let mut world = world(2, &EndpointConfig { max_half_open: 500, ..EndpointConfig::default() });
    for _ in 0..500 {
        connect(&mut world, 1);
    }
    world.run_for(SEC * 5);
    assert!(world.hosts[1].heard.values().all(|heard| heard.connected));
    assert_eq!(world.hosts[1].heard.len(), 500);
    for host in &mut world.hosts {
        assert_eq!(host.endpoint.poll_timeout(), Ok(None), "nobody waits for anything");
    }
}

#[test]
fn a_probe_is_told_the_ecn_field_that_it_came_with() {
    let mut world = world(2, &EndpointConfig::default());
    let (server, now) = (world.hosts[0].address, world.now);
    let probe = world.hosts[1].endpoint.connect(now, server, PORT, ServiceCode::PROBE).unwrap();
    world.run_for(SEC);
    let reason = world.hosts[1].heard[&probe].closed;
    let Some(CloseReason::Reset(reason)) = reason else { panic!("{reason:?}") };
    assert_eq!((reason.code, reason.told_ecn().is_some()), (ResetCode::BadServiceCode, true));
}

#[test]
fn nobody_listens_or_not_for_that_service() {
    let mut world = world(2, &EndpointConfig::default());
    let (server, now) = (world.hosts[0].address, world.now);
    let client = &mut world.hosts[1].endpoint;
    let wrong_port = client.connect(now, server, PORT + 1, SERVICE).unwrap();
    let wrong_service = client.connect(now, server, PORT, ServiceCode::new(1)).unwrap();
    world.run_for(SEC);
    let reason = |code| Some(CloseReason::Reset(ResetReason::plain(code)));
    assert_eq!(world.hosts[1].heard[&wrong_port].closed, reason(ResetCode::ConnectionRefused));
    assert_eq!(world.hosts[1].heard[&wrong_service].closed, reason(ResetCode::BadServiceCode));
    assert!(world.hosts[0].heard.is_empty());
    assert_eq!(world.hosts[0].endpoint.statistics().refused, 2);
}

#[test]
fn open_connections_are_bounded_on_either_side() {
    let config = EndpointConfig { max_connections: 3, ..EndpointConfig::default() };
    let mut world = world(3, &config);
    for _ in 0..3 {
        connect(&mut world, 1);
    }
    let server = world.hosts[0].address;
    assert_eq!(world.hosts[1].endpoint.connect(world.now, server, PORT, SERVICE), Err(ConnectError::TooMany(3)));
    world.run_for(SEC);
    let id = connect(&mut world, 2);
    world.run_for(SEC);
    let busy = CloseReason::Reset(ResetReason::plain(ResetCode::TooBusy));
    assert_eq!(world.hosts[2].heard[&id].closed, Some(busy));
}

const BUSY: CloseReason = CloseReason::Reset(ResetReason::plain(ResetCode::TooBusy));

#[test]
fn of_ten_callers_for_one_place_one_is_taken_and_no_other_is_acknowledged() {
    let mut world = world(11, &EndpointConfig::default());
    world.hosts[0].endpoint.set_room(PORT, Some(1));
    let ids: Vec<(usize, ConnectionId)> = (1..11).map(|from| (from, connect(&mut world, from))).collect();
    // Their data leave at once.
    for &(from, id) in &ids {
        (0..5).for_each(|n| world.hosts[from].push(world.now, id, vec![n; 100]));
    }
    world.run_for(SEC * 5);
    let taken = |world: &World| world.hosts[0].heard.values().filter(|heard| heard.connected).count();
    assert_eq!((taken(&world), world.hosts[0].heard.len()), (1, 1));
    let mut served = 0;
    for &(from, id) in &ids {
        let heard = &world.hosts[from].heard[&id];
        let acked = world.hosts[from].endpoint.connection(id).map(|connection| connection.statistics().acked);
        match heard.closed {
            None => served += 1,
            Some(reason) => assert_eq!((reason, acked.unwrap_or(0)), (BUSY, 0)),
        }
    }
    assert_eq!(served, 1);
    assert!(BUSY.is_busy() && !CloseReason::Peer.is_busy());
    // A later client is refused before a handshake, until there is room.
    let (half_open, late) = (world.hosts[0].endpoint.half_open(), connect(&mut world, 1));
    world.run_for(SEC);
    assert!(!world.hosts[1].heard[&late].connected && world.hosts[1].heard[&late].closed == Some(BUSY));
    assert_eq!(half_open, 0);
    world.hosts[0].endpoint.set_room(PORT, Some(1));
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    assert!(world.hosts[1].heard[&id].connected && world.hosts[1].heard[&id].closed.is_none());
    assert_eq!(taken(&world), 2);
}

#[test]
fn forged_requests_take_no_place() {
    let mut world = world(2, &EndpointConfig::default());
    world.hosts[0].endpoint.set_room(PORT, Some(1));
    (0..50).for_each(|n| world.inject(0, stranger(n), &request(1, PORT, SERVICE), Ecn::NotEct));
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    assert!(world.hosts[1].heard[&id].connected && world.hosts[1].heard[&id].closed.is_none());
}

#[test]
fn a_handshake_that_is_completed_when_nobody_listens_any_more_is_refused() {
    let mut world = world(2, &EndpointConfig::default());
    let id = connect(&mut world, 1);
    assert!(world.run_until(SEC, |world| world.hosts[0].endpoint.half_open() == 1));
    world.hosts[0].endpoint.stop_listening(PORT);
    world.run_for(SEC);
    let refused = CloseReason::Reset(ResetReason::plain(ResetCode::ConnectionRefused));
    assert_eq!(world.hosts[1].heard[&id].closed, Some(refused));
    assert!(world.hosts[0].heard.is_empty());
}

#[test]
fn refusals_are_rate_limited_and_never_answer_a_reset() {
    let config = EndpointConfig { resets_per_second: 100, ..EndpointConfig::default() };
    let mut world = world(1, &config);
    let data = bare(&Header::new(1, 2, Seq::new(3), Body::Ack { ack: Seq::new(8) }));
    for n in 0..500 {
        world.inject(0, stranger(n), &data, Ecn::NotEct);
    }
    world.settle();
    assert_eq!(world.to_nowhere, 100);
    world.run_for(SEC);
    let reset = Body::Reset { ack: Seq::new(8), code: ResetCode::Closed, data: [0; 3] };
    world.inject(0, stranger(1), &bare(&Header::new(1, 2, Seq::new(3), reset)), Ecn::NotEct);
    world.settle();
    assert_eq!(world.to_nowhere, 100);
    assert_eq!(world.hosts[0].endpoint.statistics().stray, 501);
}

#[test]
fn a_refusal_takes_its_numbers_from_what_it_refuses() {
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(1));
    let mut cm = timeous_cm::Manager::default();
    let data = bare(&Header::new(40, 50, Seq::new(3), Body::Ack { ack: Seq::new(8) }));
    endpoint.handle_datagram(Instant::ZERO, &mut cm, stranger(0), &data, Ecn::NotEct).unwrap();
    let mut bytes = Vec::new();
    let sent = endpoint.poll_transmit(Instant::ZERO, &mut cm, &mut Queues::default(), &mut bytes).unwrap().unwrap();
    assert_eq!((sent.to, sent.connection, sent.transmit.adu), (stranger(0), None, None));
    let header = Packet::parse(&bytes, Encapsulation::Udp).unwrap().header;
    let body = Body::Reset { ack: Seq::new(3), code: ResetCode::NoConnection, data: [0; 3] };
    assert_eq!(header, Header::new(50, 40, Seq::new(9), body));
}

#[test]
fn an_endpoint_keeps_the_driving_order_too() {
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(1));
    let (mut cm, mut queues) = (timeous_cm::Manager::default(), Queues::default());
    let now = Instant::ZERO + SEC;
    endpoint.connect(now, stranger(1), PORT, SERVICE).unwrap();
    assert_eq!(endpoint.poll_timeout(), Err(Misuse::NotDrained));
    let mut packet = vec![0];
    let full = endpoint.poll_transmit(now, &mut cm, &mut queues, &mut packet);
    assert_eq!(full, Err(Misuse::BufferNotEmpty { len: 1 }));
    packet.clear();
    assert!(endpoint.poll_transmit(now, &mut cm, &mut queues, &mut packet).unwrap().is_some());
    packet.clear();
    assert_eq!(endpoint.poll_transmit(now, &mut cm, &mut queues, &mut packet), Ok(None));
    assert_eq!(endpoint.poll_timeout(), Ok(Some(now + SEC)));
    let back = Misuse::TimeWentBack { last: now, now: Instant::ZERO };
    assert_eq!(endpoint.handle_timeout(Instant::ZERO, &mut cm), Err(back));
}

#[test]
fn flows_to_one_host_share_its_window() {
    let link =
        LinkConfig { rate: Some(timeous_core::Rate::from_kbps(2_000)), queue: MS * 100, ..LinkConfig::default() };
    let mut world = World::new(2, &EndpointConfig::default(), &link, 5);
    world.hosts[0].endpoint.listen(PORT, &[SERVICE]);
    let ids = [connect(&mut world, 1), connect(&mut world, 1)];
    world.run_for(SEC);
    for id in ids {
        for _ in 0..20_000 {
            world.hosts[1].push(world.now, id, vec![0; 1_000]);
        }
    }
    world.run_for(SEC * 30);
    let sent = ids.map(|id| world.hosts[1].endpoint.connection(id).unwrap().statistics().bytes_sent);
    let share = sent[0] as f64 / (sent[0] + sent[1]) as f64;
    assert!((0.45..0.55).contains(&share), "{sent:?}");
    assert!(sent.iter().sum::<u64>() > 30 * 200_000, "{sent:?}");
}

#[test]
fn a_shorter_path_concerns_all_connections_of_the_peer() {
    let mut world = world(2, &EndpointConfig::default());
    let ids = [connect(&mut world, 1), connect(&mut world, 1)];
    let server = world.hosts[0].address;
    world.hosts[1].endpoint.path_mtu_exceeded(server, 700);
    for id in ids {
        let connection = world.hosts[1].endpoint.connection(id).unwrap();
        assert_eq!(connection.max_payload(), 700 - Config::HEADER_ROOM);
        assert_eq!(connection.state(), State::Request);
    }
}

#[test]
fn natively_only_ports_that_are_ours_are_answered_for() {
    use std::net::IpAddr;
    use timeous_dccp::Route;
    let [here, there] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(1));
    endpoint.listen(PORT, &[SERVICE]);
    let mut cm = timeous_cm::Manager::default();
    let mut answer = |port, body| {
        let route = Route::native(here, (there, 9).into());
        let encapsulation = Encapsulation::Native { source: there, destination: here };
        let mut bytes = Vec::new();
        let start = packet::begin(&Header::new(40_000, port, Seq::new(5), body), &[], &mut bytes).unwrap();
        packet::finish(&mut bytes, start, encapsulation).unwrap();
        endpoint.handle_datagram(timeous_core::Instant::ZERO, &mut cm, route, &bytes, Ecn::NotEct).unwrap();
        let (mut queues, mut out) = (Queues::default(), Vec::new());
        let sent = endpoint.poll_transmit(timeous_core::Instant::ZERO, &mut cm, &mut queues, &mut out).unwrap()?;
        assert_eq!((sent.to, sent.from), ((there, 0).into(), Local::Native(here)));
        let encapsulation = Encapsulation::Native { source: here, destination: there };
        let packet_type = Packet::parse(&out, encapsulation).unwrap().header.packet_type();
        while endpoint
            .poll_transmit(timeous_core::Instant::ZERO, &mut cm, &mut queues, &mut Vec::new())
            .unwrap()
            .is_some()
        {}
        Some(packet_type)
    };
    use timeous_dccp::PacketType;
    let asks = |service| Body::Request { service };
    assert_eq!(answer(PORT + 1, asks(SERVICE)), None, "another program may listen there");
    assert_eq!(answer(50_000, Body::Data), None, "another program may have called from there");
    assert_eq!(answer(PORT, Body::Data), Some(PacketType::Reset));
    assert_eq!(answer(PORT, asks(ServiceCode::from_bytes(*b"else"))), Some(PacketType::Reset));
    assert_eq!(answer(PORT, asks(SERVICE)), Some(PacketType::Response));
}

#[test]
fn a_port_unreachable_ends_the_request_that_it_quotes_and_nothing_else() {
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(1));
    let (mut cm, mut queues, now) = (timeous_cm::Manager::default(), Queues::default(), Instant::ZERO);
    let id = endpoint.connect(now, stranger(1), PORT, SERVICE).unwrap();
    let mut sent = Vec::new();
    assert!(endpoint.poll_transmit(now, &mut cm, &mut queues, &mut sent).unwrap().is_some());
    let mut told = |remote, quoted: &[u8]| {
        endpoint.port_unreachable(now, remote, quoted).unwrap();
        endpoint.poll_event()
    };
    // Another host's, one that quotes too little, and guesses at the number and at the port.
    assert_eq!(told(stranger(2), &sent), None);
    assert_eq!(told(stranger(1), &sent[..15]), None);
    for at in [1, 15] {
        let mut guess = sent.clone();
        guess[at] ^= 1;
        assert_eq!(told(stranger(1), &guess), None);
    }
    let unreachable = Event::Closed { reason: CloseReason::Unreachable };
    assert_eq!(told(stranger(1), &sent[..16]), Some((id, unreachable)));
}

#[test]
fn an_answered_request_takes_no_notice_of_a_port_unreachable() {
    let mut world = world(2, &EndpointConfig::default());
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    let (server, now) = (world.hosts[0].address, world.now);
    let connection = world.hosts[1].endpoint.connection(id).unwrap();
    let (local_port, iss) = (connection.target().local_port, connection.initial_sequence_numbers().0);
    let quoted = bare(&Header::new(local_port, PORT, iss, Body::Request { service: SERVICE }));
    world.hosts[1].endpoint.port_unreachable(now, server, &quoted).unwrap();
    world.run_for(SEC);
    assert_eq!(world.hosts[1].heard[&id].closed, None);
}
