//! Tests of migration: peers that change their address, and attackers who claim to be a peer.

use std::net::SocketAddr;

use timeous_cm::{Destination, Manager};
use timeous_core::{Duration, Ecn, Instant, Rng};
use timeous_dccp::{
    Body, Config, ConnectionId, Encapsulation, Endpoint, EndpointConfig, Event, Header, Packet, PacketType, ResetCode,
    Seq, State,
};

use crate::endpoint::{bare, request};
use crate::link::LinkConfig;
use crate::pair::SERVICE;
use crate::world::{Queues, World};

const SEC: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
const PORT: u16 = 7_000;
/// The same host behind another port of its NAT, and another host.
const PLACES: [([u8; 4], u16); 2] = [([10, 0, 0, 2], 9_999), ([192, 0, 2, 9], 9_999)];

/// A client that is connected to host 0: its name here, and there.
fn connected(config: &EndpointConfig) -> (World, ConnectionId, ConnectionId) {
    let link = LinkConfig { delay: MS * 20, ..LinkConfig::default() };
    let mut world = World::new(2, config, &link, 1);
    world.hosts[0].endpoint.listen(PORT, &[SERVICE]);
    let server = world.hosts[0].address;
    let client = world.hosts[1].endpoint.connect(world.now, server, PORT, SERVICE).unwrap();
    world.run_for(SEC);
    let server = *world.hosts[0].heard.keys().next().unwrap();
    (world, client, server)
}

fn goes_on(world: &World, client: ConnectionId, server: ConnectionId) {
    assert_eq!((world.hosts[1].heard[&client].closed, world.hosts[0].heard[&server].closed), (None, None));
}

#[test]
fn a_client_that_its_nat_gives_another_address_goes_on_and_so_does_its_server() {
    for place in PLACES.map(SocketAddr::from) {
        let (mut world, client, server) = connected(&EndpointConfig::default());
        let before = world.hosts[1].address;
        let mut said = 0;
        for n in 0..200u32 {
            if n == 100 {
                world.hosts[1].address = place;
            }
            let now = world.now;
            world.hosts[1].push(now, client, n.to_be_bytes().to_vec());
            world.hosts[0].push(now, server, n.to_be_bytes().to_vec());
            said += 1;
            world.run_for(MS * 20);
        }
        world.run_for(SEC * 3);
        goes_on(&world, client, server);
        assert_eq!(world.hosts[0].heard[&server].moved, [(before, place)]);
        assert_eq!(world.hosts[0].endpoint.remote(server), Some(place));
        assert_eq!(world.hosts[0].endpoint.statistics().moved, 1);
        assert_eq!(world.hosts[1].heard[&client].moved, []);
        // Packets in flight before the new address was verified are lost: a round trip or two.
        for received in [&world.hosts[0].heard[&server].received, &world.hosts[1].heard[&client].received] {
            assert!(received.len() >= said - 15, "{}", received.len());
            assert_eq!(received.last().unwrap(), &199u32.to_be_bytes());
        }
        // The flow joins the macroflow of the new host.
        let there = Destination::from(place.ip());
        let view = world.hosts[0].cm.snapshot();
        let of = view.macroflows.iter().find(|one| !one.flows.is_empty()).unwrap();
        assert_eq!(of.destination, there);
        assert_eq!(world.hosts[0].endpoint.half_open(), 0);
    }
}

#[test]
fn a_client_that_only_listens_is_found_when_it_asks_whether_its_server_lives() {
    let connection = Config { keep_alive: Some(SEC * 2), silence: SEC * 5, ..Config::default() };
    let (mut world, client, server) = connected(&EndpointConfig { connection, ..EndpointConfig::default() });
    world.hosts[1].address = PLACES[0].into();
    for n in 0..100u32 {
        let now = world.now;
        world.hosts[0].push(now, server, n.to_be_bytes().to_vec());
        world.run_for(MS * 100);
    }
    goes_on(&world, client, server);
    assert_eq!(world.hosts[0].endpoint.remote(server), Some(PLACES[0].into()));
    assert_eq!(world.hosts[1].heard[&client].received.last().unwrap(), &99u32.to_be_bytes());
}

#[test]
fn a_server_that_has_another_address_is_followed_by_its_client() {
    let (mut world, client, server) = connected(&EndpointConfig::default());
    world.hosts[0].address = PLACES[1].into();
    for n in 0..50u32 {
        let now = world.now;
        world.hosts[0].push(now, server, n.to_be_bytes().to_vec());
        world.run_for(MS * 20);
    }
    world.run_for(SEC);
    goes_on(&world, client, server);
    assert_eq!(world.hosts[1].endpoint.remote(client), Some(PLACES[1].into()));
    assert_eq!(world.hosts[1].heard[&client].received.last().unwrap(), &49u32.to_be_bytes());
}

#[test]
fn a_client_that_moves_and_closes_at_once_is_heard() {
    let (mut world, client, server) = connected(&EndpointConfig::default());
    world.hosts[1].address = PLACES[0].into();
    let now = world.now;
    world.hosts[1].endpoint.close(now, client).unwrap();
    world.run_for(SEC * 2);
    assert!(world.hosts[0].heard[&server].closed.is_some() && world.hosts[1].heard[&client].closed.is_some());
}

/// A server whose client is played by hand, with a window of what was said.
struct Scripted {
    now: Instant,
    endpoint: Endpoint,
    cm: Manager,
    id: ConnectionId,
    /// The last number that it sent home.
    sent: Seq,
}

fn home() -> SocketAddr {
    ([10, 0, 0, 2], 6_511).into()
}

fn elsewhere(n: u8) -> SocketAddr {
    ([192, 0, 2, n], 6_511).into()
}

impl Scripted {
    /// Connected: the client has used numbers 5 to 7.
    fn new() -> Self {
        let mut endpoint = Endpoint::new(EndpointConfig::default(), Rng::from_seed(3));
        endpoint.listen(PORT, &[SERVICE]);
        let mut one =
            Self { now: Instant::ZERO, endpoint, cm: Manager::default(), id: ConnectionId(0), sent: Seq::new(0) };
        one.hear(home(), &request(40_000, PORT, SERVICE));
        assert_eq!(one.say().len(), 1);
        one.ack(home(), 6);
        one.say();
        one.ack(home(), 7);
        one.say();
        let (id, _) = one.endpoint.poll_event().expect("it has come in");
        while one.endpoint.poll_event().is_some() {}
        assert_eq!(one.endpoint.connection(id).unwrap().state(), State::Open);
        one.id = id;
        one
    }

    fn hear(&mut self, from: SocketAddr, datagram: &[u8]) {
        self.endpoint.handle_datagram(self.now, &mut self.cm, from, datagram, Ecn::NotEct).unwrap();
    }

    fn client(&mut self, from: SocketAddr, seq: u64, body: Body) -> usize {
        let packet = bare(&Header::new(40_000, PORT, Seq::new(seq), body));
        self.hear(from, &packet);
        packet.len()
    }

    fn ack(&mut self, from: SocketAddr, seq: u64) -> usize {
        let ack = self.sent;
        self.client(from, seq, Body::Ack { ack })
    }

    /// All that leaves now: where to, what, and how long it is.
    fn say(&mut self) -> Vec<(SocketAddr, Header, usize)> {
        let mut said = Vec::new();
        let (mut queues, mut packet) = (Queues::default(), Vec::new());
        while let Some(sent) = self.endpoint.poll_transmit(self.now, &mut self.cm, &mut queues, &mut packet).unwrap() {
            let header = Packet::parse(&packet, Encapsulation::Udp).unwrap().header;
            if sent.to == home() {
                self.sent = header.seq;
            }
            said.push((sent.to, header, packet.len()));
            packet.clear();
        }
        said
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
        self.endpoint.handle_timeout(self.now, &mut self.cm).unwrap();
    }

    fn remote(&self) -> SocketAddr {
        self.endpoint.remote(self.id).expect("the connection is there")
    }
}

#[test]
fn a_new_address_gets_a_sync_and_the_connection_when_it_acknowledges_that() {
    let mut server = Scripted::new();
    let len = server.ack(elsewhere(1), 8);
    let said = server.say();
    let [(to, sync, sent)] = said[..] else { panic!("{said:?}") };
    assert_eq!((to, sync.body, sent <= len), (elsewhere(1), Body::Sync { ack: Seq::new(8) }, true));
    assert_eq!(server.remote(), home(), "it has not answered");
    // From its old address all goes on as ever.
    server.ack(home(), 9);
    assert!(server.say().iter().all(|&(to, ..)| to == home()));
    // An answer from anywhere else is none.
    server.client(elsewhere(2), 10, Body::SyncAck { ack: sync.seq });
    assert_eq!(server.remote(), home());
    server.client(elsewhere(1), 11, Body::SyncAck { ack: sync.seq });
    assert_eq!(server.remote(), elsewhere(1));
    assert_eq!(server.endpoint.poll_event(), Some((server.id, Event::Moved { from: home(), to: elsewhere(1) })));
    server.client(elsewhere(1), 12, Body::Sync { ack: server.sent });
    assert!(
        server.say().iter().any(|&(to, header, _)| to == elsewhere(1) && header.packet_type() == PacketType::SyncAck)
    );
}

#[test]
fn a_sync_that_is_lost_is_sent_again_and_the_answer_to_each_counts() {
    let mut server = Scripted::new();
    let mut syncs = Vec::new();
    for n in 0..4 {
        server.ack(elsewhere(1), 8 + n);
        let away = server.say().into_iter().filter(|&(to, ..)| to != home());
        syncs.extend(away.map(|(_, header, _)| header.seq));
        server.wait(MS * 130);
    }
    assert_eq!(syncs.len(), 4);
    server.client(elsewhere(1), 20, Body::SyncAck { ack: syncs[0] });
    assert_eq!(server.remote(), elsewhere(1));
}

#[test]
fn strangers_with_numbers_that_fit_by_chance_get_a_sync_each_eighth_of_a_second_and_never_more_than_they_sent() {
    let mut server = Scripted::new();
    let (mut heard, mut sent, mut syncs) = (0, 0, 0);
    for n in 0..1_000u64 {
        // The shortest packet that there is: a Sync would be longer.
        heard += server.client(elsewhere(1), 8 + n % 50, Body::Data);
        heard += server.ack(elsewhere((n % 7) as u8), 8 + n % 50);
        for (_, header, len) in server.say().into_iter().filter(|&(to, ..)| to != home()) {
            assert_eq!(header.packet_type(), PacketType::Sync, "a fitting packet is never reset");
            (sent, syncs) = (sent + len, syncs + 1);
        }
        server.wait(MS);
    }
    assert!((7..=9).contains(&syncs), "{syncs}");
    assert!(sent <= heard);
    assert_eq!(server.remote(), home());
}

#[test]
fn a_forged_packet_neither_takes_nor_ends_a_stream() {
    let mut server = Scripted::new();
    let good = server.sent;
    // A blindly forged packet does not match and is refused; one that matches by chance has to be verified.
    server.client(elsewhere(1), 1 << 40, Body::Ack { ack: Seq::new(1 << 41) });
    let said = server.say();
    assert!(matches!(said[..], [(_, Header { body: Body::Reset { .. }, .. }, _)]), "{said:?}");
    server.client(elsewhere(1), 8, Body::Reset { ack: good, code: ResetCode::Closed, data: [0; 3] });
    server.client(elsewhere(1), 8, Body::Close { ack: good });
    server.client(elsewhere(1), 8, Body::SyncAck { ack: good });
    server.say();
    for guess in 1..100 {
        server.client(elsewhere(1), 9, Body::SyncAck { ack: good + 5 + guess });
    }
    server.say();
    assert_eq!((server.remote(), server.endpoint.connection(server.id).unwrap().state()), (home(), State::Open));
    assert_eq!(server.endpoint.poll_event(), None);
    server.ack(home(), 8);
    assert_eq!(server.endpoint.connection(server.id).unwrap().statistics().sequence_invalid, 0);
}
