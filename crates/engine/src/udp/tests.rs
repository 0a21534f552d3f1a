//! Tests of the socket against the kernel.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::net::IpAddr;

use rustix::event::{PollFd, PollFlags};
use timeous_core::{AduMeta, Duration, Ecn, Instant, RecvMeta, Rng};
use timeous_ring::{Config, Consumer, create};

use super::*;
use crate::clock;
use crate::waker::timespec;

fn pair(loopback: &str) -> (Socket, Socket) {
    let bind = || Socket::bind(loopback.parse().unwrap()).unwrap();
    (bind(), bind())
}

/// Receives until there are `count` datagrams, for at most five seconds.
fn received(socket: &mut Socket, count: usize) -> Vec<(SocketAddr, Ecn, Vec<u8>)> {
    let got = RefCell::new(Vec::new());
    while got.borrow().len() < count {
        let timeout = timespec(Duration::from_secs(5));
        let ready = rustix::event::poll(&mut [PollFd::new(&*socket, PollFlags::IN)], Some(&timeout)).unwrap();
        assert!(ready > 0, "only {} of {count} came", got.borrow().len());
        while socket
            .receive(clock::now(), |_, way, meta, bytes| got.borrow_mut().push((way.from, meta.ecn, bytes.to_vec())))
            .unwrap()
        {}
    }
    got.into_inner()
}

fn send_all(socket: &mut Socket, packets: &[Packet<'_>]) {
    let mut done = BTreeSet::new();
    let all = socket.send(packets, |at, result| {
        result.unwrap();
        assert!(done.insert(at), "packet {at} was told of twice");
    });
    assert!(all && done.len() == packets.len());
}

/// Returns a ring with these payloads, all of them claimed: tokens are indexes.
fn claimed(payloads: &[Vec<u8>]) -> Consumer {
    let (mut producer, mut consumer) = create(&Config::new(256).buffers(256).buffer_size(8192)).unwrap();
    for payload in payloads {
        producer.enqueue(&AduMeta::default(), payload).unwrap();
        consumer.claim(Instant::ZERO).unwrap().unwrap();
    }
    consumer
}

/// Sends bursts of headers and ring payloads of mixed sizes and marks to two sockets, and checks that each gets its
/// own.
fn bursts_arrive(loopback: &str, bundles: bool) {
    let (mut sender, mut first) = pair(loopback);
    let mut second = Socket::bind(loopback.parse().unwrap()).unwrap();
    sender.set_bundles(bundles);
    let to = [first.local_addr().unwrap(), second.local_addr().unwrap()];
    let mut rng = Rng::from_seed(7);
    for _ in 0..20 {
        let size = |rng: &mut Rng| [0, 1, 64, 300, 1400, 1400, 1400, 8000][rng.below(8) as usize];
        let payloads: Vec<Vec<u8>> =
            (0..Socket::BATCH).map(|_| (0..size(&mut rng)).map(|_| rng.next_u32() as u8).collect()).collect();
        let headers: Vec<Vec<u8>> = (0..Socket::BATCH).map(|at| vec![at as u8; 12 + at % 2 * 4]).collect();
        let consumer = claimed(&payloads);
        let mut expected = [Vec::new(), Vec::new()];
        let mut packets = Vec::new();
        for (at, header) in headers.iter().enumerate() {
            let receiver = rng.below(2) as usize;
            let ecn = [Ecn::Ect0, Ecn::Ect0, Ecn::NotEct, Ecn::Ce, Ecn::Ect1][rng.below(5) as usize];
            let payload = (at % 5 != 4).then(|| consumer.payload(at as u64).unwrap());
            let bytes = if payload.is_some() { [&header[..], &payloads[at]].concat() } else { header.clone() };
            expected[receiver].push((sender_address(&sender), ecn, bytes));
            packets.push(Packet { to: to[receiver], from: None, ecn, header, payload });
        }
        send_all(&mut sender, &packets);
        for (receiver, expected) in [&mut first, &mut second].into_iter().zip(&expected) {
            let got = received(receiver, expected.len());
            assert!(got.iter().map(|(_, ecn, bytes)| (ecn, bytes)).eq(expected.iter().map(|(_, e, b)| (e, b))));
            assert!(got.iter().zip(expected).all(|(got, expected)| got.0.port() == expected.0.port()));
        }
    }
    assert_eq!(sender.bundles(), bundles, "nothing was refused");
}

fn sender_address(socket: &Socket) -> SocketAddr {
    socket.local_addr().unwrap()
}

#[test]
fn a_burst_of_mixed_sizes_arrives_intact_with_its_marks() {
    bursts_arrive("127.0.0.1:0", true);
    bursts_arrive("[::1]:0", true);
}

#[test]
fn it_does_so_without_gso() {
    bursts_arrive("127.0.0.1:0", false);
    bursts_arrive("[::1]:0", false);
}

#[test]
fn a_socket_of_both_families_keeps_the_marks_of_ipv4() {
    let (mut sender, _) = pair("127.0.0.1:0");
    let mut receiver = Socket::bind("[::]:0".parse().unwrap()).unwrap();
    let to = (std::net::Ipv4Addr::LOCALHOST, receiver.local_addr().unwrap().port()).into();
    let packet = Packet { to, from: None, ecn: Ecn::Ce, header: b"in time", payload: None };
    send_all(&mut sender, &[packet; 3]);
    let from = received(&mut receiver, 3).into_iter().map(|(from, ecn, bytes)| {
        assert_eq!((ecn, &bytes[..]), (Ecn::Ce, &b"in time"[..]));
        from
    });
    let from: Vec<_> = from.collect();
    // And back, to an IPv4-mapped IPv6 address.
    send_all(&mut receiver, &[Packet { to: from[0], ..packet }; 3]);
    assert!(received(&mut sender, 3).iter().all(|(_, ecn, _)| *ecn == Ecn::Ce));
}

#[test]
fn an_empty_datagram_is_one_too() {
    let (mut sender, mut receiver) = pair("127.0.0.1:0");
    let to = receiver.local_addr().unwrap();
    send_all(&mut sender, &[Packet { to, from: None, ecn: Ecn::Ect1, header: b"", payload: None }]);
    send_all(&mut sender, &[Packet { to, from: None, ecn: Ecn::NotEct, header: b"after it", payload: None }]);
    let got = received(&mut receiver, 1);
    assert!(
        got.iter().all(|(_, ecn, bytes)| (*ecn, &bytes[..]) == (Ecn::NotEct, b"after it")),
        "nobody asks for nothing"
    );
}

/// Regression: with GRO the kernel merges datagrams, and reports mark and size in control messages, which were
/// truncated for lack of space.
#[test]
fn datagrams_that_come_in_one_piece_keep_their_mark() {
    let (mut sender, mut receiver) = pair("127.0.0.1:0");
    let bytes = [7; 1000];
    let packet = Packet { to: receiver.local_addr().unwrap(), from: None, ecn: Ecn::Ce, header: &bytes, payload: None };
    send_all(&mut sender, &[packet; 40]);
    let timeout = timespec(Duration::from_secs(5));
    rustix::event::poll(&mut [PollFd::new(&receiver, PollFlags::IN)], Some(&timeout)).unwrap();
    let messages = receiver.inbound.receive(receiver.io.as_fd(), false).unwrap();
    let arrival = receiver.inbound.arrival(0).unwrap();
    assert_eq!((messages, arrival.bytes.len()), (1, 40_000), "over loopback a bundle is not even cut");
    assert_eq!((arrival.marks.ecn, arrival.marks.segment), (Ecn::Ce, 1000));
}

/// The kernel refuses GSO without checksums.
#[test]
fn where_gso_is_refused_packets_go_one_by_one_from_then_on() {
    let (mut sender, mut receiver) = pair("127.0.0.1:0");
    set_option(sender.as_fd(), SocketOption::NoChecksum, 1).unwrap();
    let to = receiver.local_addr().unwrap();
    let texts = ["one", "two", "six", "ten"];
    let packets = texts.map(|text| Packet { to, from: None, ecn: Ecn::Ect0, header: text.as_bytes(), payload: None });
    send_all(&mut sender, &packets);
    assert!(!sender.bundles(), "it was refused, and is not tried again");
    send_all(&mut sender, &packets);
    let got = received(&mut receiver, 8);
    assert!(got.iter().map(|(_, _, bytes)| &bytes[..]).eq(texts.iter().chain(&texts).map(|text| text.as_bytes())));
}

#[test]
fn a_packet_that_cannot_go_does_not_keep_the_others_and_leaves_gso_on() {
    let (mut sender, mut receiver) = pair("127.0.0.1:0");
    let to = receiver.local_addr().unwrap();
    // Port zero cannot be sent to.
    let nowhere = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let packet = |to| Packet { to, from: None, ecn: Ecn::NotEct, header: b"same", payload: None };
    let packets = [packet(to), packet(nowhere), packet(nowhere), packet(to)];
    let mut refused = Vec::new();
    assert!(sender.send(&packets, |at, result| if result.is_err() {
        refused.push(at);
    }));
    assert_eq!(refused, [1, 2]);
    assert_eq!(received(&mut receiver, 2).len(), 2);
    assert!(sender.bundles());
}

/// The memory may change while the kernel reads it: the packet has the right length, and content that the memory had at
/// some time.
#[test]
fn a_producer_that_writes_over_its_payload_in_mid_send_hurts_nobody() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use timeous_ring::{Limits, create_shared};

    let (producer, fd) = create_shared(&Config::new(64)).unwrap();
    let mut consumer = Consumer::open(&fd, &Limits::default()).unwrap();
    let mut producer = producer;
    for fill in 0..32 {
        producer.enqueue(&AduMeta::default(), &[fill; 1400]).unwrap();
        consumer.claim(Instant::ZERO).unwrap().unwrap();
    }
    let (mut sender, mut receiver) = pair("127.0.0.1:0");
    let to = receiver.local_addr().unwrap();
    let wrote = AtomicU64::new(0);
    let size = rustix::fs::fstat(&fd).unwrap().st_size as u64;
    std::thread::scope(|scope| {
        // Dropped with this closure, even if an assertion fails.
        let sending = Arc::new(());
        let still = Arc::downgrade(&sending);
        // Another process would write by its own mapping; the file is the same memory.
        let enemy = scope.spawn({
            let (wrote, fd) = (&wrote, &fd);
            move || {
                while still.strong_count() > 0 {
                    let round = wrote.fetch_add(1, Ordering::Relaxed);
                    // The payload zone is the last part of the ring: 64 pages.
                    let at = size - (1 + round % 64) * 4096;
                    rustix::io::pwrite(fd, &[round as u8; 4096], at).unwrap();
                }
            }
        });
        // A busy machine may start the writing thread late, and the test needs its writes.
        let mut disturbed = 0;
        for round in 0_u32.. {
            assert!(!enemy.is_finished(), "the memory may be written");
            let before = wrote.load(Ordering::Relaxed);
            let header = round.to_be_bytes();
            let packet =
                |token| Packet { to, from: None, ecn: Ecn::Ect0, header: &header, payload: consumer.payload(token) };
            let packets: Vec<_> = (0..32).map(packet).collect();
            send_all(&mut sender, &packets);
            for (_, ecn, bytes) in received(&mut receiver, 32) {
                assert_eq!((ecn, bytes.len(), &bytes[..4]), (Ecn::Ect0, 1404, &header[..]));
            }
            disturbed += u32::from(wrote.load(Ordering::Relaxed) > before);
            if round >= 200 && disturbed >= 20 {
                break;
            }
        }
    });
    assert_eq!(consumer.violation(), None, "payloads are the application's own affair");
}

/// Returns two raw sockets; reports why and returns `None` where they are not allowed.
fn raw_pair(test: &str, loopback: &str) -> Option<(Socket, Socket)> {
    let bind = || Socket::bind_raw(loopback.parse().unwrap());
    match bind() {
        Ok(socket) => Some((socket, bind().unwrap())),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let all = std::env::var("TIMEOUS_REQUIRE_ALL");
            assert_ne!(all.as_deref(), Ok("1"), "{test} may not be skipped: it needs CAP_NET_RAW");
            eprintln!("SKIPPED {test}: needs CAP_NET_RAW");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_raw_socket_tells_mark_and_addresses_and_keeps_the_ip_header_to_itself() {
    // Loopback addresses that no other test uses.
    for (loopback, other) in [("127.0.0.77", Some("127.0.0.78")), ("::1", None)] {
        let name = "a_raw_socket_tells_mark_and_addresses_and_keeps_the_ip_header_to_itself";
        let Some((mut sender, mut receiver)) = raw_pair(name, loopback) else { return };
        let address: IpAddr = loopback.parse().unwrap();
        let from = other.map_or(address, |other| other.parse().unwrap());
        // One socket may send from any address of the host.
        let mut anywhere = Socket::bind_raw(if from.is_ipv4() { "0.0.0.0" } else { "::" }.parse().unwrap()).unwrap();
        assert!(sender.is_raw() && !sender.bundles());
        let marks = [Ecn::Ect0, Ecn::NotEct, Ecn::Ce, Ecn::Ect1];
        let packet = |ecn, header, from| Packet { to: (address, 0).into(), from, ecn, header, payload: None };
        send_all(&mut sender, &marks.map(|ecn| packet(ecn, b"no DCCP at all", None)));
        send_all(&mut anywhere, &[packet(Ecn::Ect0, b"from elsewhere", Some(from))]);
        let mut got = Vec::new();
        while got.len() < 5 {
            let timeout = timespec(Duration::from_secs(5));
            assert!(rustix::event::poll(&mut [PollFd::new(&receiver, PollFlags::IN)], Some(&timeout)).unwrap() > 0);
            let mut add = |_: Instant, way: Way, meta: RecvMeta, bytes: &[u8]| {
                // Other tests use IPv6's only loopback address, too.
                if bytes.starts_with(b"no DCCP") || bytes.starts_with(b"from elsewhere") {
                    got.push((way.from, way.to, meta.ecn, bytes.to_vec()));
                }
            };
            while receiver.receive(clock::now(), &mut add).unwrap() {}
        }
        for (got, mark) in got.iter().zip(marks) {
            assert_eq!(*got, ((address, 0).into(), Some(address), mark, b"no DCCP at all".to_vec()));
        }
        assert_eq!((got[4].0.ip(), &got[4].3[..]), (from, &b"from elsewhere"[..]));
    }
}

#[test]
fn the_kernel_tells_for_how_long_a_datagram_has_waited() {
    let raw = raw_pair("the_kernel_tells_for_how_long_a_datagram_has_waited", "127.0.0.1");
    let pairs = [("v4", Some(pair("127.0.0.1:0"))), ("v6", Some(pair("[::1]:0"))), ("raw", raw)];
    for (name, (mut sender, mut receiver)) in pairs.into_iter().filter_map(|(name, pair)| Some((name, pair?))) {
        let to = receiver.local_addr().unwrap();
        let before = clock::now();
        send_all(
            &mut sender,
            &[Packet { to, from: None, ecn: Ecn::Ect0, header: b"waits for its reader", payload: None }],
        );
        let after = clock::now();
        std::thread::park_timeout(Duration::from_millis(30).into());
        let mut came = None;
        let mut note = |now: Instant, _: Way, meta: RecvMeta, bytes: &[u8]| {
            if bytes == b"waits for its reader" {
                came = Some(now.saturating_sub(meta.waited));
            }
        };
        // A reader that was held up after it had read the clock.
        while receiver.receive(before, &mut note).unwrap() {}
        let came = came.unwrap_or_else(|| panic!("{name}: nothing came"));
        assert!(before < came && came <= after, "{name}: {came:?}");
    }
}

#[test]
fn what_was_sent_to_many_is_nobodys() {
    // For a broadcast, `in_pktinfo` has another address than the header.
    let mut control = abi::Control::default();
    let mut info = [0; 12];
    info[4..8].copy_from_slice(&[192, 0, 2, 1]);
    info[8..].copy_from_slice(&[192, 0, 2, 255]);
    let len = control.put(0, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
    assert_eq!(control.read(len).to, None);
    info[8..].copy_from_slice(&[192, 0, 2, 1]);
    let len = control.put(0, libc::IPPROTO_IP, libc::IP_PKTINFO, &info);
    assert_eq!(control.read(len).to, Some([192, 0, 2, 1].into()));
    let mut info = [0; 20];
    info[..2].copy_from_slice(&[0xff, 0x02]);
    let len = control.put(0, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &info);
    assert_eq!(control.read(len).to, None);
}

#[test]
fn a_port_unreachable_is_told_with_what_it_quotes_while_it_is_asked_for() {
    for local in ["127.0.0.1:0", "[::1]:0"] {
        let local: SocketAddr = local.parse().unwrap();
        let nobody = UdpSocket::bind(local).unwrap().local_addr().unwrap();
        let mut socket = Socket::bind(local).unwrap();
        let refusals = |socket: &mut Socket| {
            let packet = Packet { to: nobody, from: None, ecn: Ecn::Ect0, header: b"anybody there?", payload: None };
            socket.send(&[packet], |_, _| {});
            // On loopback, the error is there when the call returns.
            let mut told = Vec::new();
            socket.receive_refusals(|to, quoted| told.push((to, quoted.to_vec())));
            told
        };
        assert_eq!(refusals(&mut socket), []);
        socket.report_refusals(true).unwrap();
        assert_eq!(refusals(&mut socket), [(nobody, b"anybody there?".to_vec())]);
        socket.report_refusals(false).unwrap();
        assert_eq!(refusals(&mut socket), []);
    }
}

#[test]
fn a_refusal_by_one_destination_keeps_no_packet_from_another() {
    let (mut sender, mut receiver) = pair("127.0.0.1:0");
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    sender.report_refusals(true).unwrap();
    let packet = |to, header| Packet { to, from: None, ecn: Ecn::Ect0, header, payload: None };
    sender.send(&[packet(nobody, &b"anybody there?"[..])], |_, _| {});
    send_all(&mut sender, &[packet(receiver.local_addr().unwrap(), &b"there"[..])]);
    assert_eq!(received(&mut receiver, 1)[0].2, b"there");
}

#[test]
fn sockets_that_share_a_port_get_the_hosts_that_are_placed_on_them() {
    for loopback in ["127.0.0.1:0", "[::]:0"] {
        let first = Socket::bind_shared(loopback.parse().unwrap(), std::num::NonZeroUsize::new(3)).unwrap();
        let port = first.local_addr().unwrap().port();
        let local = first.local_addr().unwrap();
        let mut sockets = vec![first];
        sockets.extend((1..3).map(|_| Socket::bind_shared(local, None).unwrap()));
        let hosts = (1..=9).map(|host| IpAddr::from([127, 0, 0, host]));
        let six = local.is_ipv6().then_some(IpAddr::from(std::net::Ipv6Addr::LOCALHOST));
        for host in hosts.chain(six) {
            let to: IpAddr = if host.is_ipv4() { [127, 0, 0, 1].into() } else { host };
            let sender = UdpSocket::bind((host, 0)).unwrap();
            sender.send_to(b"to one", (to, port)).unwrap();
            let at = crate::port_group::place(host, 3);
            let [(from, ..)] = &received(&mut sockets[at], 1)[..] else { panic!("one datagram at {at}") };
            assert_eq!(from.ip().to_canonical(), host);
        }
        assert!(UdpSocket::bind(local).is_err(), "nobody else gets the port");
    }
}
