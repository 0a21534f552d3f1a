//! DCCP directly over IP: streams over raw sockets on the loopback interface.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use timeous_core::{AduMeta, Duration, Fate, Priority, Rate};
use timeous_engine::{
    Carrier, Ccid, CloseReason, Engine, EngineError, Listener, Sealing, ServiceCode, Status, Stream, StreamConfig,
    clock,
};
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig, Stop};
use timeous_net::link::{Capacity, CodelConfig, QueueKind};
use timeous_net::{Direction, LinkConfig};

const PATIENCE: Duration = Duration::from_secs(60);

/// Raw sockets receive all packets of a host: each test uses ports of its own.
fn config(dccp_port: u16) -> StreamConfig {
    StreamConfig {
        dccp: timeous_engine::DccpConfig { server_holds_timewait: true, ..Default::default() },
        dccp_port,
        repair: Some(Priority::LOWEST),
        sealing: Sealing::Off,
        ..StreamConfig::new(Carrier::Ip)
    }
}

fn at(address: &str) -> SocketAddr {
    SocketAddr::new(address.parse::<IpAddr>().unwrap(), 0)
}

/// Opens a listener; reports why and returns `None` where raw sockets are not allowed.
fn listener(test: &str, engine: &Engine, address: &str, port: u16) -> Option<Listener> {
    match engine.listen(at(address), config(port)) {
        Ok(listener) => Some(listener),
        Err(EngineError::NoRawSocket) => {
            let all = std::env::var("TIMEOUS_REQUIRE_ALL");
            assert_ne!(all.as_deref(), Ok("1"), "{test} may not be skipped: it needs CAP_NET_RAW");
            eprintln!("SKIPPED {test}: needs CAP_NET_RAW");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[track_caller]
fn closed(stream: &Stream) -> CloseReason {
    let end = clock::now() + PATIENCE;
    loop {
        if let Status::Closed(reason) = stream.status() {
            return reason;
        }
        assert!(clock::now() < end, "the stream is {:?}", stream.status());
    }
}

/// Sends `count` datagrams, and checks that each arrives once and whole, and that all are acknowledged.
#[track_caller]
fn transfer(from: &mut Stream, to: &mut Stream, count: u16) {
    let (mut got, mut acked, mut sent) = (BTreeSet::new(), 0, 0);
    let end = clock::now() + PATIENCE;
    while acked < count || got.len() < usize::from(count) {
        assert!(clock::now() < end, "{} of {count} came, {acked} were acknowledged: {:?}", got.len(), from.status());
        if sent < count && from.sending().enqueue(&AduMeta::default(), &payload(sent)).is_ok() {
            sent += 1;
        }
        while let Some(received) = to.receiving().poll_received() {
            let n = u16::from_be_bytes([received.bytes[0], received.bytes[1]]);
            assert!(received.bytes == payload(n));
            got.insert(n);
        }
        while let Some(completion) = from.sending().poll_completion() {
            assert_eq!(completion.fate, Fate::Acked);
            acked += 1;
        }
        if sent == count {
            to.receiving().wait(Some(clock::now() + Duration::from_millis(1)));
        }
    }
}

fn payload(n: u16) -> Vec<u8> {
    let mut bytes = vec![n as u8; 2 + usize::from(n % 900)];
    bytes[..2].copy_from_slice(&n.to_be_bytes());
    bytes
}

#[test]
fn two_engines_talk_over_ipv4_and_ipv6_both_ways_and_close() {
    // Both engines share the host: each receives the other's packets, too, and ignores them.
    for (address, port) in [("127.0.0.1", 4_001), ("::1", 4_002)] {
        let [here, there] = [(), ()].map(|()| Engine::start().unwrap());
        let name = "two_engines_talk_over_ipv4_and_ipv6_both_ways_and_close";
        let Some(mut listener) = listener(name, &there, address, port) else { return };
        assert_eq!(listener.local_addr().port(), port);
        let mut client = here.connect(at(address), config(port)).unwrap();
        let mut server = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
        transfer(&mut client, &mut server, 500);
        transfer(&mut server, &mut client, 500);
        assert_eq!(client.sending().snapshot().transport.violations(), 0);
        client.sending().finish();
        assert_eq!((closed(&client), closed(&server)), (CloseReason::Local, CloseReason::Peer));
    }
}

#[test]
fn who_listens_everywhere_is_called_at_any_address_and_streams_share_a_socket() {
    let [here, there] = [(), ()].map(|()| Engine::start().unwrap());
    let name = "who_listens_everywhere_is_called_at_any_address_and_streams_share_a_socket";
    let Some(mut listener) = listener(name, &there, "::", 4_011) else { return };
    let sockets = || std::fs::read_to_string("/proc/net/raw").unwrap().lines().count();
    let mut streams = Vec::new();
    let mut before = 0;
    for address in ["127.0.0.1", "127.0.0.1", "127.0.0.1", "127.0.0.9", "::1"] {
        let client = here.connect(at(address), config(4_011)).unwrap();
        let server = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
        streams.push((client, server));
        if streams.len() == 1 {
            before = sockets();
        }
        if streams.len() == 3 {
            // Other tests of this process may close sockets meanwhile.
            assert!(sockets() <= before + 3, "each stream has a socket of its own");
        }
    }
    for (client, server) in &mut streams {
        transfer(client, server, 50);
        transfer(server, client, 50);
    }
}

#[test]
fn a_port_has_one_listener_and_others_are_refused_by_name() {
    let [one, other] = [(), ()].map(|()| Engine::start().unwrap());
    let name = "a_port_has_one_listener_and_others_are_refused_by_name";
    let Some(listener) = listener(name, &one, "127.0.0.1", 4_021) else { return };
    for engine in [&one, &other] {
        let error = engine.listen(at("127.0.0.1"), config(4_021)).unwrap_err();
        assert!(matches!(error, EngineError::PortInUse(at) if at.port() == 4_021), "{error}");
    }
    let mut beside = one.listen(at("127.0.0.1"), config(4_022)).unwrap();
    // A connection for another service code.
    let odd = StreamConfig { service: ServiceCode::from_bytes(*b"else"), ..config(4_021) };
    let refused = other.connect(at("127.0.0.1"), odd).unwrap();
    assert!(matches!(closed(&refused), CloseReason::Reset(_)), "the listener says so");
    let mut client = other.connect(at("127.0.0.1"), config(4_022)).unwrap();
    let mut server = beside.accept(Some(clock::now() + PATIENCE)).expect("a caller");
    drop(listener);
    let end = clock::now() + PATIENCE;
    let again = loop {
        match other.listen(at("127.0.0.1"), config(4_021)) {
            Ok(listener) => break listener,
            Err(error) => assert!(clock::now() < end, "{error}"),
        }
    };
    drop(again);
    transfer(&mut client, &mut server, 10);
}

#[test]
fn without_the_right_the_error_says_what_to_do() {
    // Capabilities belong to a thread, and are inherited by threads that it starts.
    let thread = std::thread::spawn(|| {
        let mut mine = capabilities(None).unwrap();
        mine.effective.remove(CapabilitySet::NET_RAW);
        mine.permitted.remove(CapabilitySet::NET_RAW);
        mine.inheritable.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, mine).unwrap();
        let engine = Engine::start().unwrap();
        let listening = engine.listen(at("::"), config(4_031)).unwrap_err();
        let calling = engine.connect(at("127.0.0.1"), config(4_031)).unwrap_err();
        for error in [listening, calling] {
            assert!(matches!(error, EngineError::NoRawSocket), "{error}");
            let text = error.to_string();
            assert!(text.contains("cap_net_raw") && text.contains("encap=udp"), "{text}");
        }
    });
    thread.join().unwrap();
}

/// A link of 2 Mbit/s and 10 ms each way between two hosts, whose queue marks packets after 5 ms; reports why and returns `None` where that
/// is not allowed.
fn marking(test: &str, short: &str) -> Option<Router> {
    let [left, right] = ["l", "r"].map(|end| format!("t-{short}-{}{end}", std::process::id()));
    let delay = Duration::from_millis(10);
    let forward = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(2_000)),
        kind: QueueKind::Codel(CodelConfig::default()),
        delay,
        ..LinkConfig::default()
    };
    let back = LinkConfig { delay, ..LinkConfig::default() };
    match Router::open(RouterConfig { forward, back, ..RouterConfig::new(&left, &right) }) {
        Ok(router) => Some(router),
        Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)) => {
            let all = std::env::var("TIMEOUS_REQUIRE_ALL");
            assert_ne!(all.as_deref(), Ok("1"), "{test} may not be skipped: it needs root and iproute2 ({error})");
            eprintln!("SKIPPED {test}: needs root and iproute2 ({error})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Starts an engine whose sockets are in this namespace.
fn engine_in(namespace: &Namespace) -> Engine {
    namespace.within(|| Engine::start().unwrap()).unwrap()
}

/// A router's ECN marks are counted by the receiver, reported in Ack Vectors or loss intervals, and reduce the sender's rate: nothing is
/// dropped (RFC 4340 §12, RFC 4341 §5, RFC 4342 §5). In virtual time: `marks_do_what_losses_do_and_lose_nothing` of the DCCP tests.
#[test]
fn a_queue_that_marks_slows_a_stream_down_and_nothing_is_lost() {
    let name = "a_queue_that_marks_slows_a_stream_down_and_nothing_is_lost";
    for (ccid, short) in [(Ccid::Ccid2, "ce2"), (Ccid::Ccid3, "ce3")] {
        let Some(mut router) = marking(name, short) else { return };
        let there = engine_in(router.namespace(Direction::Back));
        let here = engine_in(router.namespace(Direction::Forward));
        let stop = Stop::new().unwrap();
        let stopper = stop.stopper().unwrap();
        let (sent, got) = std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let end = router.now() + PATIENCE;
                router.run_until(end, &stop).unwrap();
            });
            let config = || {
                let plain = config(4_051);
                StreamConfig { dccp: plain.dccp.clone().with_ccids(&[ccid]), ..plain }
            };
            let mut listener = there.listen(at("0.0.0.0"), config()).unwrap();
            let mut client = here.connect(at("10.77.0.2"), config()).unwrap();
            let mut server = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
            transfer(&mut client, &mut server, 1_500);
            let end = clock::now() + PATIENCE;
            let known = loop {
                // A snapshot is an old one where the engine is busy.
                let (sent, got) = (client.sending().snapshot().transport, server.receiving().snapshot().transport);
                if 0 < sent.ce_acked && sent.ce_acked <= got.ce_received {
                    break (sent, got);
                }
                assert!(clock::now() < end, "{ccid}: marks known to the sender: {sent:?}, of those that came: {got:?}");
                server.receiving().wait(Some(clock::now() + Duration::from_millis(20)));
            };
            stopper.stop();
            running.join().unwrap();
            known
        });
        let counters = router.snapshot(Direction::Forward).counters;
        assert_eq!(counters.queue_drops, 0, "{ccid}: all could be marked");
        assert_eq!(got.data_gaps, 0, "{ccid}: {got:?}");
        // A machine that stands still for a timeout makes the sender give packets up that are on their way.
        assert!(sent.lost == 0 || sent.timeouts > 0, "{ccid}: {sent:?}");
    }
}
