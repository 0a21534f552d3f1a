//! Floods of forged Requests: Init Cookies (RFC 4340 §8.1.4).

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use timeous_core::{Duration, Ecn};
use timeous_dccp::{Body, ConnectionId, Encapsulation, EndpointConfig, Header, Opt, Packet, ResetCode, Seq, packet};

use crate::endpoint::request;
use crate::link::LinkConfig;
use crate::pair::SERVICE;
use crate::source::Step;
use crate::world::{Queues, World};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const PORT: u16 = 7_000;

fn world(max_half_open: usize) -> World {
    let config = EndpointConfig { max_half_open, ..EndpointConfig::default() };
    let mut world = World::new(2, &config, &LinkConfig::default(), 1);
    world.hosts[0].endpoint.listen(PORT, &[SERVICE]);
    world
}

fn stranger(n: u32) -> SocketAddr {
    SocketAddr::from(([192, 0, (n >> 8) as u8, n as u8], 9_999))
}

fn connect(world: &mut World) -> ConnectionId {
    let server = world.hosts[0].address;
    world.hosts[1].endpoint.connect(world.now, server, PORT, SERVICE).unwrap()
}

#[test]
fn a_flood_of_forged_requests_keeps_no_state_and_shuts_no_door() {
    let mut world = world(10);
    let mut ids = Vec::new();
    // 500 a second from ever new addresses, for ten seconds.
    for n in 0..5_000 {
        world.inject(0, stranger(n), &request(1, PORT, SERVICE), Ecn::NotEct);
        if n % 500 == 250 {
            let id = connect(&mut world);
            (0..20).for_each(|n| world.hosts[1].push(world.now, id, vec![n; 500]));
            ids.push(id);
        }
        world.run_for(MS * 2);
        assert!(world.hosts[0].endpoint.half_open() <= 10);
    }
    world.run_for(SEC);
    for id in ids {
        assert!(world.hosts[1].heard[&id].connected && world.hosts[1].heard[&id].closed.is_none());
        assert_eq!(world.hosts[1].queues.0[&id].count(Step::Acked), 20);
    }
    let statistics = world.hosts[0].endpoint.statistics();
    assert!(statistics.cookies > 4_900, "{statistics:?}");
    assert_eq!(world.hosts[0].heard.len(), 10, "the application never hears of the forged ones");
    assert!(world.hosts[0].heard.values().all(|heard| heard.connected && heard.received.len() == 20));
}

/// The Response of a crowded server to a stranger's Request.
fn response(world: &mut World, from: SocketAddr) -> (Header, Vec<u8>) {
    world.inject(0, from, &request(40, PORT, SERVICE), Ecn::NotEct);
    let (host, mut bytes) = (&mut world.hosts[0], Vec::new());
    let sent = host.endpoint.poll_transmit(world.now, &mut host.cm, &mut Queues::default(), &mut bytes).unwrap();
    assert_eq!(sent.unwrap().to, from);
    let packet = Packet::parse(&bytes, Encapsulation::Udp).unwrap();
    let cookie = packet.options().find_map(|item| match item.unwrap().opt {
        Opt::InitCookie(cookie) => Some(cookie.to_vec()),
        _ => None,
    });
    (packet.header, cookie.expect("a crowded server sends a cookie"))
}

fn crowded() -> World {
    let mut world = world(1);
    world.inject(0, stranger(0), &request(1, PORT, SERVICE), Ecn::NotEct);
    world.settle();
    world
}

fn ack(response: &Header, cookie: &[u8]) -> Vec<u8> {
    let (header, mut bytes) = (Header::new(40, PORT, Seq::new(6), Body::Ack { ack: response.seq }), Vec::new());
    let start = packet::begin(&header, &[Opt::InitCookie(cookie)], &mut bytes).unwrap();
    packet::finish(&mut bytes, start, Encapsulation::Udp).unwrap();
    bytes
}

#[test]
fn a_cookie_counts_for_its_client_only_and_for_seconds_and_is_answered_by_reset_code_10_otherwise() {
    let mut world = crowded();
    let (told, cookie) = response(&mut world, stranger(1));
    let incoming = |world: &World| world.hosts[0].heard.values().filter(|heard| heard.incoming).count();
    let mut torn = cookie.clone();
    torn[5] ^= 1;
    let longer = [&cookie[..], &[0]].concat();
    for (from, cookie) in [(2, &cookie), (1, &torn), (1, &longer), (1, &vec![])] {
        world.inject(0, stranger(from), &ack(&told, cookie), Ecn::NotEct);
        let (host, mut bytes) = (&mut world.hosts[0], Vec::new());
        host.endpoint.poll_transmit(world.now, &mut host.cm, &mut Queues::default(), &mut bytes).unwrap().unwrap();
        let body = Packet::parse(&bytes, Encapsulation::Udp).unwrap().header.body;
        assert_eq!(body, Body::Reset { ack: Seq::new(6), code: ResetCode::BadInitCookie, data: [0; 3] });
    }
    world.run_for(SEC * 12);
    world.inject(0, stranger(1), &ack(&told, &cookie), Ecn::NotEct);
    world.settle();
    assert_eq!(incoming(&world), 0, "it is too old");
    world.inject(0, stranger(9), &request(1, PORT, SERVICE), Ecn::NotEct);
    let (told, cookie) = response(&mut world, stranger(1));
    world.inject(0, stranger(1), &ack(&told, &cookie), Ecn::NotEct);
    world.settle();
    assert_eq!(incoming(&world), 1);
}

/// Returns the number of cookies for one Request from each of `from`, at once.
fn cookies_for(from: impl Iterator<Item = SocketAddr>) -> u64 {
    let mut world = crowded();
    let before = world.hosts[0].endpoint.statistics().cookies;
    from.for_each(|from| world.inject(0, from, &request(1, PORT, SERVICE), Ecn::NotEct));
    world.hosts[0].endpoint.statistics().cookies - before
}

#[test]
fn all_addresses_of_one_ipv6_64_get_the_cookies_of_one_host() {
    let addresses = 0..1_000_u16;
    let one_host = cookies_for(addresses.clone().map(|n| (Ipv4Addr::new(192, 0, 2, 1), 5_000 + n).into()));
    assert!((1..1_000).contains(&one_host), "{one_host} cookies for one host");
    let network = |n| (Ipv6Addr::new(0x2001, 0xdb8, 0, 1, n, 0, 0, n), 9_999).into();
    assert_eq!(cookies_for(addresses.map(network)), one_host);
}
