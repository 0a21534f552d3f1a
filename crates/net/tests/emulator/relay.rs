//! Tests of the relay over real sockets: contents, ECN marks, clients, counters.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use timeous_core::{Duration, Rate};
use timeous_net::capture::Capture;
use timeous_net::emulator::{Emulator, EmulatorError, Relay, RelayConfig};
use timeous_net::link::{Capacity, Limit, Loss, QueueKind, RedConfig};
use timeous_net::{Direction, LinkConfig};

use crate::tools::{self, PATIENCE, Running};

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind(any_port()).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A target's socket, and a relay to it.
fn relay(change: impl FnOnce(&mut RelayConfig)) -> (UdpSocket, SocketAddr, Running<Relay>) {
    let target = socket();
    let mut config = RelayConfig::new(any_port(), target.local_addr().unwrap());
    change(&mut config);
    let relay = Relay::bind(config).unwrap();
    (target, relay.local_addr(), Running::start(relay))
}

fn hear(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 65_536];
    let (len, from) = socket.recv_from(&mut buffer).expect("something comes");
    (buffer[..len].to_vec(), from)
}

#[test]
fn content_passes_both_ways_each_client_hearing_its_own() {
    let (target, address, running) = relay(|config| config.forward.delay = Duration::from_millis(1));
    let clients: Vec<UdpSocket> = (0..5).map(|_| socket()).collect();
    for (number, client) in clients.iter().enumerate() {
        client.send_to(format!("hello {number}").as_bytes(), address).unwrap();
    }
    for number in 0..clients.len() {
        let (content, from) = hear(&target);
        assert_eq!(content, format!("hello {number}").as_bytes(), "in order");
        target.send_to(&[b"re: ", &content[..]].concat(), from).unwrap();
    }
    for (number, client) in clients.iter().enumerate() {
        assert_eq!(hear(client), (format!("re: hello {number}").into_bytes(), address));
    }
    let relay = running.stop();
    assert_eq!(relay.clients(), 5);
    assert_eq!(relay.strays(), 0);
    let counters = relay.snapshot(Direction::Forward).counters;
    assert_eq!((counters.packets_in, counters.packets_out), (5, 5));
    assert_eq!(counters.bytes_in, 5 * (7 + 28), "each with its headers");
    assert_eq!(relay.snapshot(Direction::Back).counters.bytes_out, 5 * (11 + 28));
}

#[test]
fn datagrams_of_any_size_pass() {
    let (target, address, _running) = relay(|_| {});
    let client = socket();
    for len in [0, 1, 1_472, 9_000, 65_507] {
        client.send_to(&vec![7; len], address).unwrap();
        assert_eq!(hear(&target).0, vec![7; len]);
    }
}

#[test]
fn no_more_passes_than_the_rate_carries_and_every_packet_is_accounted_for() {
    let rate = Rate::from_kbps(800);
    let (_target, address, running) = relay(|config| {
        config.forward =
            LinkConfig { capacity: Capacity::Fixed(rate), queue: Limit::Packets(10), ..LinkConfig::default() };
    });
    let client = socket();
    client.set_read_timeout(Some(std::time::Duration::from_millis(300))).unwrap();
    for _ in 0..100 {
        client.send_to(&[0; 972], address).unwrap();
    }
    client.recv_from(&mut [0]).expect_err("nobody answers");
    let relay = running.stop();
    let elapsed = relay.now();
    let snapshot = relay.snapshot(Direction::Forward);
    let counters = snapshot.counters;
    assert_eq!(counters.packets_in, 100);
    assert_eq!(
        counters.packets_in,
        counters.packets_out + counters.queue_drops + (snapshot.queue_len + snapshot.in_flight) as u64
    );
    assert!(counters.bytes_out <= rate.bytes_in(elapsed - timeous_core::Instant::ZERO));
    assert!(counters.max_queue_len <= 10);
    assert!(counters.queue_drops > 0);
}

#[test]
fn loss_is_the_seeds_alone() {
    let lost = || {
        let (target, address, running) = relay(|config| {
            config.seed = 3;
            config.forward.loss = Loss::Bernoulli { p: 0.3 };
        });
        let client = socket();
        for number in 0..100u8 {
            client.send_to(&[number], address).unwrap();
        }
        // A seed that lets nothing pass at the end would make this wait in vain; seed 3 does not.
        let mut heard = Vec::new();
        while heard.last() != Some(&99) {
            heard.extend(hear(&target).0);
        }
        assert_eq!(running.stop().snapshot(Direction::Forward).counters.losses, 100 - heard.len() as u64);
        heard
    };
    let first = lost();
    assert!(first.len() < 100);
    assert_eq!(first, lost());
}

/// A socket that sees and sets ECN marks and can send several datagrams in one call.
struct Marked {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Marked {
    fn new() -> Self {
        Self::on(socket())
    }

    fn on(socket: UdpSocket) -> Self {
        let state = UdpSocketState::new((&socket).into()).unwrap();
        // quinn-udp made it non-blocking; this test wants to wait.
        socket.set_nonblocking(false).unwrap();
        Self { socket, state }
    }

    fn send(&self, destination: SocketAddr, ecn: Option<EcnCodepoint>, contents: &[u8], segment_size: Option<usize>) {
        let transmit = Transmit { destination, ecn, contents, segment_size, src_ip: None };
        self.state.try_send((&self.socket).into(), &transmit).unwrap();
    }

    fn receive(&self) -> RecvMeta {
        let mut buffer = [0; 65_536];
        let mut metas = [RecvMeta::default()];
        self.state.recv((&self.socket).into(), &mut [IoSliceMut::new(&mut buffer)], &mut metas).expect("one comes");
        metas[0]
    }
}

/// A relay to the target, on a port of the same address.
fn relay_to(target: &Marked) -> (SocketAddr, Running<Relay>) {
    relay_over(target, LinkConfig::default())
}

fn relay_over(target: &Marked, forward: LinkConfig) -> (SocketAddr, Running<Relay>) {
    let target = target.socket.local_addr().unwrap();
    let config = RelayConfig { forward, ..RelayConfig::new(SocketAddr::new(target.ip(), 0), target) };
    let relay = Relay::bind(config).unwrap();
    (relay.local_addr(), Running::start(relay))
}

#[test]
fn ecn_marks_are_kept_both_ways() {
    check_marks(Marked::new(), Marked::new());
}

#[test]
fn ecn_marks_are_kept_over_ipv6() {
    let v6 = || UdpSocket::bind("[::1]:0").map(Marked::on);
    match (v6(), v6()) {
        (Ok(target), Ok(client)) => check_marks(target, client),
        _ => tools::skip("ecn_marks_are_kept_over_ipv6", "IPv6 on the loopback"),
    }
}

/// quinn-udp 0.6.3 loses the mark where the kernel puts datagrams together, for want of room beside it.
#[test]
fn ecn_marks_of_datagrams_sent_in_one_call_are_kept() {
    let (target, client) = (Marked::new(), Marked::new());
    let (address, _running) = relay_to(&target);
    if client.state.max_gso_segments() < 3 {
        return tools::skip("ecn_marks_of_datagrams_sent_in_one_call_are_kept", "UDP segmentation offload");
    }
    client.send(address, Some(EcnCodepoint::Ce), &[1; 300], Some(100));
    for _ in 0..3 {
        let meta = target.receive();
        assert_eq!((meta.len, meta.ecn), (100, Some(EcnCodepoint::Ce)));
    }
}

#[test]
fn a_queue_that_grows_marks_what_can_be_marked() {
    let (target, client) = (Marked::new(), Marked::new());
    let red = RedConfig { min: 0.0, max: 1.0, max_p: 1.0, weight: 1.0, ecn: true };
    let (capacity, queue) = (Capacity::Fixed(Rate::from_kbps(800)), Limit::Packets(40));
    let (address, running) =
        relay_over(&target, LinkConfig { capacity, queue, kind: QueueKind::Red(red), ..Default::default() });
    for _ in 0..20 {
        client.send(address, Some(EcnCodepoint::Ect0), &[0; 972], None);
    }
    let marked = (0..20).filter(|_| target.receive().ecn == Some(EcnCodepoint::Ce)).count() as u64;
    let counters = running.stop().snapshot(Direction::Forward).counters;
    assert_eq!((counters.marks, counters.queue_drops), (marked, 0));
    assert!(marked > 0, "{counters:?}");
}

#[test]
fn what_is_duplicated_arrives_twice() {
    let (target, client) = (Marked::new(), Marked::new());
    let (address, running) = relay_over(&target, LinkConfig { duplicate: 1.0, ..Default::default() });
    for len in [10, 20] {
        client.send(address, None, &vec![0; len], None);
    }
    assert_eq!([(); 4].map(|()| target.receive().len), [10, 10, 20, 20]);
    let counters = running.stop().snapshot(Direction::Forward).counters;
    assert_eq!((counters.packets_in, counters.packets_out, counters.duplicates), (2, 4, 2));
}

fn check_marks(target: Marked, client: Marked) {
    let (address, _running) = relay_to(&target);
    let marks = [None, Some(EcnCodepoint::Ect0), Some(EcnCodepoint::Ect1), Some(EcnCodepoint::Ce)];
    for (index, there) in marks.into_iter().enumerate() {
        let back = marks[(index + 1) % marks.len()];
        client.send(address, there, b"there", None);
        let meta = target.receive();
        assert_eq!(meta.ecn, there);
        target.send(meta.addr, back, b"back", None);
        assert_eq!(client.receive().ecn, back);
    }
}

#[test]
fn datagrams_sent_in_one_call_are_packets_of_their_own() {
    let (target, address, running) = relay(|_| {});
    let client = Marked::new();
    if client.state.max_gso_segments() < 10 {
        return tools::skip("datagrams_sent_in_one_call_are_packets_of_their_own", "UDP segmentation offload");
    }
    let contents: Vec<u8> = (0..=255).cycle().take(950).collect();
    client.send(address, Some(EcnCodepoint::Ect0), &contents, Some(100));
    for expected in contents.chunks(100) {
        assert_eq!(hear(&target).0, expected);
    }
    let counters = running.stop().snapshot(Direction::Forward).counters;
    assert_eq!(counters.packets_in, 10);
    assert_eq!(counters.bytes_in, 950 + 10 * 28);
}

#[test]
fn clients_beyond_the_bound_are_refused_and_the_others_served() {
    let (target, address, running) = relay(|config| config.max_clients = 2);
    let clients: Vec<UdpSocket> = (0..3).map(|_| socket()).collect();
    for client in &clients {
        client.send_to(b"first", address).unwrap();
    }
    clients[0].send_to(b"again", address).unwrap();
    let heard: Vec<Vec<u8>> = (0..3).map(|_| hear(&target).0).collect();
    assert_eq!(heard, [&b"first"[..], b"first", b"again"]);
    let relay = running.stop();
    assert_eq!((relay.clients(), relay.counters().refused), (2, 1));
}

#[test]
fn what_does_not_come_from_the_target_does_not_pass() {
    let (target, address, running) = relay(|_| {});
    let (client, stranger) = (socket(), socket());
    client.send_to(b"hello", address).unwrap();
    let (_, port) = hear(&target);
    stranger.send_to(b"forged", port).unwrap();
    target.send_to(b"genuine", port).unwrap();
    assert_eq!(hear(&client).0, b"genuine");
    assert_eq!(running.stop().counters().foreign, 1);
}

#[test]
fn mixed_families_are_the_callers_mistake() {
    let error = Relay::bind(RelayConfig::new(any_port(), "[::1]:9".parse().unwrap())).unwrap_err();
    assert!(matches!(error, EmulatorError::Families { .. }), "{error}");
}

#[test]
fn a_capture_of_the_relay_shows_each_packet_twice_or_why_not() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (target, address, running) = relay(|config| {
        config.capture = Some(Capture::create(file.path()).unwrap());
        config.forward = LinkConfig {
            capacity: Capacity::Fixed(Rate::from_kbps(800)),
            delay: Duration::from_millis(20),
            queue: Limit::Packets(1),
            ..LinkConfig::default()
        };
    });
    let client = Marked::new();
    let ports = [&client.socket, &target].map(|socket| socket.local_addr().unwrap().port().to_string());
    // Three at once: one is sent, one waits, one finds the queue full. One call, if the system can.
    let contents = [5; 2_916];
    if client.state.max_gso_segments() >= 3 {
        client.send(address, Some(EcnCodepoint::Ect1), &contents, Some(972));
    } else {
        contents.chunks(972).for_each(|content| client.send(address, Some(EcnCodepoint::Ect1), content, None));
    }
    (0..2).for_each(|_| assert_eq!(hear(&target).0, [5; 972]));
    running.stop();

    let fields = ["frame.interface_name", "ip.id", "frame.comment", "udp.srcport", "udp.dstport", "ip.dsfield.ecn"];
    let Some(packets) = tools::tshark(file.path(), "udp", &fields) else {
        return tools::skip("a_capture_of_the_relay_shows_each_packet_twice_or_why_not", "tshark");
    };
    let expected = [
        ["ingress", "0x0000", ""],
        ["ingress", "0x0001", ""],
        ["ingress", "0x0002", "dropped: queue full"],
        ["egress", "0x0000", ""],
        ["egress", "0x0001", ""],
    ];
    let expected = expected.map(|[interface, id, comment]| [interface, id, comment, &ports[0], &ports[1], "1"]);
    assert_eq!(packets, expected);
    tools::assert_no_complaint(file.path());
    let times = tools::tshark(file.path(), "udp", &["frame.time_epoch"]).unwrap();
    let nanos = |index: usize| times[index][0].replace('.', "").parse::<u64>().unwrap();
    // 10 ms on the wire and 20 ms under way, each, at the least.
    assert!(nanos(3) - nanos(0) >= 30_000_000);
    assert!(nanos(4) - nanos(1) >= 40_000_000);
}
