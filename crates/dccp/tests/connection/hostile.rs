//! Tests with hostile packets, and with driver calls in arbitrary order.

use std::net::SocketAddr;

use timeous_cm::Manager;
use timeous_core::{AduSource, Duration, Ecn, Instant, Rate, Rng, Transport};
use timeous_dccp::{Body, Config, Connection, EndpointConfig, Event, Header, ResetCode, Seq, ServiceCode, State};

use crate::endpoint::{bare, request};
use crate::link::LinkConfig;
use crate::pair::{SERVICE, target};
use crate::source::{Script, Step};
use crate::world::World;

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const PORT: u16 = 7_000;

/// A good connection that sends all it can to host 0 for ten seconds, with `noise` datagrams injected there every
/// millisecond. Gives the bytes that arrived, and the world.
fn good_bytes_beside(
    noise: usize,
    mut datagram: impl FnMut(&mut Rng, &World) -> (SocketAddr, Vec<u8>),
) -> (u64, World) {
    let config = EndpointConfig { max_connections: 200, max_half_open: 50, max_lingering: 100, ..Default::default() };
    let link = LinkConfig { rate: Some(Rate::from_kbps(2_000)), queue: MS * 100, ..LinkConfig::default() };
    let mut world = World::new(2, &config, &link, 3);
    world.hosts[0].endpoint.listen(PORT, &[SERVICE]);
    let server = world.hosts[0].address;
    let id = world.hosts[1].endpoint.connect(world.now, server, PORT, SERVICE).unwrap();
    assert!(world.run_until(SEC, |world| world.hosts[1].heard.get(&id).is_some_and(|heard| heard.connected)));
    world.run_for(MS * 100);
    for _ in 0..3_000 {
        world.hosts[1].push(world.now, id, vec![0; 1_000]);
    }
    let mut rng = Rng::from_seed(99);
    for _ in 0..10_000 {
        for _ in 0..noise {
            let (from, bytes) = datagram(&mut rng, &world);
            let ecn = if rng.chance(0.2) { Ecn::Ce } else { Ecn::Ect0 };
            world.inject(0, from, &bytes, ecn);
        }
        world.run_for(MS);
        let endpoint = &world.hosts[0].endpoint;
        assert!(endpoint.connections().count() <= 200 && endpoint.half_open() <= 50 && endpoint.lingering() <= 100);
    }
    let good = world.hosts[0].heard.values().next().unwrap();
    assert_eq!(good.closed, None);
    world.hosts[1].queues.0[&id].assert_fates_in_order();
    (good.received.iter().map(|bytes| bytes.len() as u64).sum(), world)
}

/// Packets that are nearly right: any type, from anywhere, with the good connection's ports half of the time.
fn hostile(rng: &mut Rng, world: &World) -> (SocketAddr, Vec<u8>) {
    let stranger = SocketAddr::from(([172, 16, 0, rng.below(250) as u8], 1_000 + rng.below(50) as u16));
    let from = if rng.chance(0.5) { world.hosts[1].address } else { stranger };
    let client = world.hosts[1].endpoint.connections().next();
    let client_port = client.map_or(0, |id| world.hosts[1].endpoint.connection(id).unwrap().target().local_port);
    let source_port = if rng.chance(0.5) { client_port } else { rng.next_u32() as u16 };
    let dest_port = if rng.chance(0.8) { PORT } else { rng.next_u32() as u16 };
    let (seq, ack) = (Seq::new(rng.next_u64()), Seq::new(rng.next_u64()));
    let service = if rng.chance(0.8) { SERVICE } else { ServiceCode::new(rng.next_u32()) };
    let body = match rng.below(11) {
        0 => return (from, request(source_port, dest_port, service)),
        1 => Body::Response { ack, service },
        2 => Body::Data,
        3 => Body::Ack { ack },
        4 => Body::DataAck { ack },
        5 => Body::CloseReq { ack },
        6 => Body::Close { ack },
        7 => Body::Reset { ack, code: ResetCode::from(rng.next_u32() as u8), data: [1, 2, 3] },
        8 => Body::Sync { ack },
        9 => Body::SyncAck { ack },
        _ => {
            let mut bytes = vec![0; rng.below(80) as usize];
            rng.fill(&mut bytes);
            return (from, bytes);
        }
    };
    let mut bytes = bare(&Header::new(source_port, dest_port, seq, body));
    // Options that say anything, and bits that flip.
    if rng.chance(0.5) {
        let words = rng.below(30) as usize;
        let offset = bytes[4] as usize + words;
        let mut options = vec![0; words * 4];
        rng.fill(&mut options);
        bytes[4] = offset as u8;
        bytes.extend_from_slice(&options);
    }
    if rng.chance(0.3) {
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
    }
    (from, bytes)
}

#[test]
fn a_million_hostile_datagrams_neither_break_nor_slow_a_good_connection() {
    let (calm, _) = good_bytes_beside(0, hostile);
    let (stormy, world) = good_bytes_beside(100, hostile);
    assert!(calm > 2_000_000, "{calm}");
    assert!(stormy * 100 >= calm * 95, "{stormy} of {calm} bytes");
    let statistics = world.hosts[0].endpoint.statistics();
    assert!(
        statistics.malformed > 10_000 && statistics.stray > 100_000 && statistics.refused > 1_000,
        "{statistics:?}"
    );
    assert!(statistics.resets_sent <= 11 * 1_024, "{statistics:?}");
}

/// Two connections whose driver calls in any order, late, too often, with datagrams lost, repeated and shuffled.
fn drive_at_random(seed: u64) {
    let mut rng = Rng::from_seed(seed);
    let mut now = Instant::ZERO;
    let config = Config { silence: SEC * 20, ..Config::default() };
    let client = Connection::connect(now, config.clone(), target(1, 2), &mut rng);
    let server = Connection::listen(now, config, 2, &[SERVICE], target(0, 0).destination, &mut rng);
    let mut ends = [client, server].map(|connection| (connection, Manager::default(), Script::default()));
    let mut wires: [Vec<Vec<u8>>; 2] = Default::default();
    let steps = 3_000;
    for step in 0..steps + 1_000 {
        let n = rng.below(2) as usize;
        let (connection, cm, source) = &mut ends[n];
        match rng.below(12) {
            0 => now += MS * rng.below(40),
            1 => now += Duration::from_nanos(rng.below(2_000_000)),
            2 if step < steps => _ = source.push(now, vec![n as u8; rng.below(1_300) as usize]),
            3 => connection.handle_timeout(now, cm).unwrap(),
            4 => cm.handle_timeout(now),
            5 if rng.chance(0.02) && step > steps / 2 => connection.close(now).unwrap(),
            5 if rng.chance(0.005) && step > steps / 2 => connection.abort(now, ResetCode::Aborted).unwrap(),
            6 if rng.chance(0.02) => connection.path_mtu_exceeded(600 + rng.below(700) as usize),
            7 => source.false_promises = rng.below(3) as u32,
            8 | 9 => {
                if let Some(datagram) = take_any(&mut rng, &mut wires[n]) {
                    let ecn = if rng.chance(0.05) { Ecn::Ce } else { Ecn::Ect0 };
                    connection.handle_datagram(now, cm, &datagram, ecn).unwrap();
                }
            }
            _ => {
                let mut packet = Vec::new();
                if let Some(transmit) = connection.poll_transmit(now, cm, source, &mut packet).unwrap() {
                    if let Some(adu) = transmit.adu {
                        source.sent(adu.token);
                    }
                    wires[1 - n].push(packet);
                }
            }
        }
        hear(&mut ends[n].0, &mut ends[n].2);
    }
    for (connection, cm, source) in &mut ends {
        connection.abort(now, ResetCode::Aborted).unwrap();
        while connection.poll_transmit(now, cm, source, &mut Vec::new()).unwrap().is_some() {}
        hear(connection, source);
        assert!(matches!(connection.state(), State::Closed | State::TimeWait));
        assert_eq!(connection.flow(), None);
        source.assert_one_fate_each();
        for (token, steps) in &source.fates {
            assert!(steps.contains(&Step::Sent) || matches!(steps[0], Step::Dropped(_)), "seed {seed}, ADU {token}");
        }
    }
}

fn hear(connection: &mut Connection, source: &mut Script) {
    while let Some(event) = connection.poll_event() {
        match event {
            Event::Acked { token, .. } => source.acked(token),
            Event::Lost { token } => source.lost(token),
            _ => {}
        }
    }
}

/// Mostly the first, sometimes another, sometimes a copy.
fn take_any(rng: &mut Rng, wire: &mut Vec<Vec<u8>>) -> Option<Vec<u8>> {
    if wire.is_empty() {
        return None;
    }
    let at = if rng.chance(0.9) { 0 } else { rng.below(wire.len() as u64) as usize };
    if rng.chance(0.05) { Some(wire[at].clone()) } else { Some(wire.remove(at)) }
}

#[test]
fn no_driver_makes_a_token_vanish() {
    for seed in 0..300 {
        drive_at_random(seed);
    }
}
