//! Endpoint with many connections.

use std::net::{IpAddr, SocketAddr};

use timeous_core::{Duration, Ecn, Instant, Rate};
use timeous_tcp::{
    Addresses, CloseReason, ConnectError, Connection, Endpoint, EndpointConfig, Flags, Header, Options, Segment, Seq,
    State, segment,
};

use crate::link::LinkConfig;
use crate::world::World;

const SEC: Duration = Duration::from_secs(1);
const PORT: u16 = 80;

fn world(count: u8, config: &EndpointConfig, link: &LinkConfig) -> World {
    let mut world = World::new(count, config, link, 1);
    world.hosts[0].endpoint.listen(PORT);
    world.hosts[0].echoes = true;
    world
}

fn server(world: &World) -> SocketAddr {
    SocketAddr::new(world.hosts[0].address, PORT)
}

fn connect(world: &mut World, client: usize) -> timeous_tcp::ConnectionId {
    let remote = server(world);
    let host = &mut world.hosts[client];
    host.endpoint.connect(world.now, host.address, remote).unwrap()
}

/// Builds a segment that no connection has sent.
fn forged(from: SocketAddr, to: SocketAddr, header: Header) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = segment::begin(&header, &Options::default(), &mut bytes).unwrap();
    segment::finish(&mut bytes, start, Addresses { source: from.ip(), destination: to.ip() }).unwrap();
    bytes
}

fn syn(from: SocketAddr, to: SocketAddr) -> Vec<u8> {
    let header = Header { flags: Flags::SYN, window: 1_000, ..Header::new(from.port(), to.port(), Seq::new(7)) };
    forged(from, to, header)
}

#[test]
fn what_many_connections_send_comes_back_to_each() {
    let link = LinkConfig {
        rate: Some(Rate::from_kbps(50_000)),
        queue: Duration::from_millis(50),
        loss: 0.01,
        reorder: 0.01,
        ..LinkConfig::default()
    };
    let mut world = world(3, &EndpointConfig::default(), &link);
    let mut open = Vec::new();
    for n in 0..40_u8 {
        let client = 1 + usize::from(n % 2);
        let id = connect(&mut world, client);
        let bytes: Vec<u8> = (0..20_000_u32).map(|at| (at / 7) as u8 ^ n).collect();
        world.hosts[client].push(id, &bytes);
        open.push((client, id, bytes));
    }
    let done = world.run_until(SEC * 60, |world| {
        open.iter().all(|(client, id, bytes)| {
            world.hosts[*client].heard.get(id).is_some_and(|heard| heard.received.len() == bytes.len())
        })
    });
    assert!(done);
    for (client, id, bytes) in &open {
        let host = &mut world.hosts[*client];
        assert_eq!(&host.heard[id].received, bytes);
        host.endpoint.close(world.now, *id).unwrap();
    }
    world.run_for(SEC * 30);
    for (client, id, _) in &open {
        let heard = &world.hosts[*client].heard[id];
        assert!(heard.connected && heard.finished && heard.incoming.is_none());
        assert_eq!((heard.closed, heard.lost), (Some(CloseReason::Finished), 0));
    }
    let server = &world.hosts[0];
    assert_eq!(server.heard.len(), 40);
    assert!(server.heard.values().all(|heard| heard.incoming == Some(PORT) && heard.closed.is_some()));
    assert_eq!(server.endpoint.connections().count(), 0);
    assert_eq!(server.endpoint.lingering(), 0, "who closes first holds TIME-WAIT");
    assert_eq!(world.hosts[1].endpoint.lingering() + world.hosts[2].endpoint.lingering(), 40);
    world.run_for(SEC * 60);
    assert_eq!(world.hosts[1].endpoint.lingering(), 0);
    assert_eq!(world.hosts[1].endpoint.poll_timeout(), Ok(None), "nothing is left to wait for");
}

#[test]
fn a_port_where_nobody_listens_refuses() {
    let mut world = World::new(2, &EndpointConfig::default(), &LinkConfig::default(), 1);
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    assert_eq!(world.hosts[1].heard[&id].closed, Some(CloseReason::Refused));
    assert_eq!(world.hosts[1].endpoint.connections().count(), 0);
    assert_eq!(world.hosts[0].endpoint.statistics().resets_sent, 1);
}

#[test]
fn strangers_get_resets_that_fit_and_not_too_many() {
    let config = EndpointConfig { resets_per_second: 10, ..EndpointConfig::default() };
    let mut world = world(1, &config, &LinkConfig::default());
    let (to, from) = (server(&world), SocketAddr::from(([203, 0, 113, 9], 1_234)));
    let blank = Header::new(from.port(), to.port(), Seq::new(500));
    let ack = forged(from, to, Header { ack: Some(Seq::new(900)), ..blank });
    let fin = forged(from, to, Header { flags: Flags::FIN, ..blank });
    let reset = forged(from, to, Header { flags: Flags::RST, ..blank });
    for segment in [&ack, &fin, &reset] {
        world.inject(0, from.ip(), segment, Ecn::NotEct);
    }
    world.settle();
    let answers: Vec<Header> = world
        .to_nowhere
        .iter()
        .map(|(to, bytes)| {
            let addresses = Addresses { source: server(&world).ip(), destination: to.ip() };
            Segment::parse(bytes, addresses).unwrap().header
        })
        .collect();
    assert_eq!(answers.len(), 2, "a reset is not answered");
    assert_eq!((answers[0].seq, answers[0].ack), (Seq::new(900), None), "<SEQ=SEG.ACK><CTL=RST>");
    assert_eq!((answers[1].seq, answers[1].ack), (Seq::new(0), Some(Seq::new(501))), "<ACK=SEG.SEQ+SEG.LEN>");
    for _ in 0..100 {
        world.inject(0, from.ip(), &ack, Ecn::NotEct);
    }
    world.settle();
    assert_eq!(world.hosts[0].endpoint.statistics().resets_sent, 10);
}

#[test]
fn a_flood_of_syns_does_not_shut_the_door_for_long() {
    let config = EndpointConfig { max_half_open: 8, ..EndpointConfig::default() };
    let mut world = world(2, &config, &LinkConfig::default());
    let to = server(&world);
    let flood = |world: &mut World| {
        for n in 0..100_u16 {
            let from = SocketAddr::from(([203, 0, 113, 9], 10_000 + n));
            world.inject(0, from.ip(), &syn(from, to), Ecn::NotEct);
        }
        world.settle();
    };
    flood(&mut world);
    assert_eq!(world.hosts[0].endpoint.half_open(), 8);
    let id = connect(&mut world, 1);
    let done = world.run_until(SEC * 20, |world| world.hosts[1].heard.get(&id).is_some_and(|heard| heard.connected));
    assert!(done, "a place is given to a newcomer after three seconds");
    assert!(world.hosts[0].heard.values().all(|heard| heard.incoming == Some(PORT)), "nobody hears of the flood");
    flood(&mut world);
    assert!(world.hosts[0].endpoint.half_open() <= 8);
    world.run_for(SEC * 200);
    assert_eq!(world.hosts[0].endpoint.half_open(), 0, "they are given up after all");
}

#[test]
fn the_most_connections_are_as_many_as_the_config_says() {
    let config = EndpointConfig { max_connections: 2, ..EndpointConfig::default() };
    let mut endpoint = Endpoint::new(config, timeous_core::Rng::from_seed(1));
    let (local, remote): (IpAddr, SocketAddr) = ([192, 0, 2, 1].into(), ([192, 0, 2, 2], 80).into());
    for _ in 0..2 {
        endpoint.connect(Instant::ZERO, local, remote).unwrap();
    }
    assert_eq!(endpoint.connect(Instant::ZERO, local, remote), Err(ConnectError::TooMany(2)));
}

#[test]
fn bytes_that_were_not_read_outlive_the_connection() {
    let mut world = world(2, &EndpointConfig::default(), &LinkConfig::default());
    world.hosts[0].echoes = false;
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    let at_server = *world.hosts[0].heard.keys().next().unwrap();
    world.hosts[1].push(id, b"last words");
    world.hosts[1].endpoint.close(world.now, id).unwrap();
    world.hosts[0].endpoint.close(world.now, at_server).unwrap();
    world.hosts[0].is_deaf = true;
    world.run_for(SEC * 200);
    let host = &mut world.hosts[0];
    assert!(host.heard[&at_server].closed.is_some());
    assert_eq!(host.endpoint.connection(at_server).map(Connection::readable), Some(10));
    let mut bytes = Vec::new();
    assert_eq!(host.endpoint.read(at_server, &mut bytes), 10);
    assert_eq!(bytes, b"last words");
    assert_eq!(host.endpoint.poll_event(), None);
    assert!(host.endpoint.connection(at_server).is_none());
}

#[test]
fn an_aborted_connection_is_gone_at_both_ends() {
    let mut world = world(2, &EndpointConfig::default(), &LinkConfig::default());
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    world.hosts[1].push(id, &[7; 100_000]);
    world.run_for(Duration::from_millis(1));
    world.hosts[1].endpoint.abort(world.now, id).unwrap();
    world.run_for(SEC);
    let heard = &world.hosts[1].heard[&id];
    assert_eq!(heard.closed, Some(CloseReason::Aborted));
    assert!(heard.lost > 0 && heard.acked == 0, "{heard:?}");
    let peer = world.hosts[0].heard.values().next().unwrap();
    assert_eq!(peer.closed, Some(CloseReason::Reset));
    for host in &world.hosts {
        assert_eq!((host.endpoint.connections().count(), host.endpoint.lingering()), (0, 0));
    }
}

#[test]
fn a_connection_in_time_wait_gives_way_to_a_later_syn_of_the_same_ports() {
    let mut world = world(2, &EndpointConfig::default(), &LinkConfig::default());
    world.hosts[0].echoes = false;
    let id = connect(&mut world, 1);
    world.run_for(SEC);
    let at_server = *world.hosts[0].heard.keys().next().unwrap();
    world.hosts[0].endpoint.close(world.now, at_server).unwrap();
    world.run_for(SEC);
    world.hosts[1].endpoint.close(world.now, id).unwrap();
    world.run_for(SEC);
    assert_eq!(world.hosts[0].endpoint.lingering(), 1);
    assert_eq!(world.hosts[1].heard[&id].closed, Some(CloseReason::Finished));
    let port = world.hosts[1].first_local_port.unwrap();
    let (from, to) = (SocketAddr::new(world.hosts[1].address, port), server(&world));
    // A SYN with the same ports and without a timestamp: an old and a new sequence number.
    for (seq, taken) in [(world.hosts[1].last_seq, false), (world.hosts[1].last_seq + 1_000, true)] {
        let header = Header { flags: Flags::SYN, window: 1_000, ..Header::new(port, to.port(), seq) };
        world.inject(0, from.ip(), &forged(from, to, header), Ecn::NotEct);
        assert_eq!(world.hosts[0].endpoint.lingering(), usize::from(!taken));
        assert_eq!(world.hosts[0].endpoint.half_open(), usize::from(taken));
    }
    assert_eq!(world.hosts[0].endpoint.connections().count(), 1);
    assert_eq!(
        world.hosts[0].endpoint.connections().map(|id| world.hosts[0].endpoint.connection(id).unwrap().state()).next(),
        Some(State::SynReceived)
    );
}

#[test]
fn idle_connections_cost_nothing() {
    let config = EndpointConfig { max_half_open: 500, ..EndpointConfig::default() };
    let mut world = world(2, &config, &LinkConfig::default());
    for _ in 0..500 {
        connect(&mut world, 1);
    }
    world.run_for(SEC * 5);
    assert_eq!(world.hosts[1].heard.values().filter(|heard| heard.connected).count(), 500);
    for host in &mut world.hosts {
        assert_eq!(host.endpoint.poll_timeout(), Ok(None), "nobody waits for anything");
    }
}
