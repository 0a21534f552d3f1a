//! Tests of the router between its own network namespaces. Needs root.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use timeous_core::{Duration, Rate};
use timeous_net::capture::Capture;
use timeous_net::emulator::{Emulator, EmulatorError, Namespace, Router, RouterConfig};
use timeous_net::link::{Capacity, Loss};
use timeous_net::{Direction, LinkConfig};

use crate::tools::{self, PATIENCE, Running};

/// Names of this process's own.
fn names(test: &str) -> [String; 2] {
    ["l", "r"].map(|side| format!("timeous-{test}-{}{side}", std::process::id()))
}

/// A router, or `None` where this is not allowed.
fn router(test: &str, short: &str, change: impl FnOnce(&mut RouterConfig)) -> Option<Router> {
    let [left, right] = names(short);
    let mut config = RouterConfig::new(&left, &right);
    change(&mut config);
    match Router::open(config) {
        Ok(router) => Some(router),
        Err(error @ (EmulatorError::NoRights { .. } | EmulatorError::NoIpTool)) => {
            tools::skip(test, &format!("root and iproute2 ({error})"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn exists(name: &str) -> bool {
    Path::new("/run/netns").join(name).exists()
}

fn bind(namespace: &Namespace, address: &str) -> UdpSocket {
    let socket = namespace.within(|| UdpSocket::bind(address)).unwrap().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn packets_pass_between_namespaces_and_are_captured() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let Some(router) = router("packets_pass_between_namespaces_and_are_captured", "a", |config| {
        config.capture = Some(Capture::create(file.path()).unwrap());
        config.forward.delay = Duration::from_millis(10);
    }) else {
        return;
    };
    let left = bind(router.namespace(Direction::Forward), "10.77.0.1:0");
    let right = bind(router.namespace(Direction::Back), "10.77.0.2:5000");
    let running = Running::start(router);
    left.send_to(&[1; 1_000], "10.77.0.2:5000").unwrap();
    let mut buffer = [0; 2_000];
    let (len, from) = right.recv_from(&mut buffer).unwrap();
    assert_eq!((len, from), (1_000, left.local_addr().unwrap()));
    right.send_to(b"back", from).unwrap();
    assert_eq!(left.recv_from(&mut buffer).unwrap().0, 4);
    let router = running.stop();
    assert_eq!(router.snapshot(Direction::Forward).counters.bytes_out, 1_028);
    assert_eq!(router.snapshot(Direction::Back).counters.bytes_out, 32);
    let [left, right] = names("a");
    assert!(exists(&left) && exists(&right));
    drop(router);
    assert!(!exists(&left) && !exists(&right), "namespaces that it made are gone");

    let Some(packets) = tools::tshark(file.path(), "udp", &["frame.interface_name", "ip.src", "udp.length"]) else {
        return tools::skip("packets_pass_between_namespaces_and_are_captured", "tshark");
    };
    let expected = [
        ["ingress", "10.77.0.1", "1008"],
        ["egress", "10.77.0.1", "1008"],
        ["ingress", "10.77.0.2", "12"],
        ["egress", "10.77.0.2", "12"],
    ];
    assert_eq!(packets, expected);
    tools::assert_no_complaint(file.path());
}

#[test]
fn the_kernels_tcp_gets_through_a_lossy_wire_unharmed() {
    let link = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(20_000)),
        delay: Duration::from_millis(2),
        loss: Loss::Bernoulli { p: 0.01 },
        ..LinkConfig::default()
    };
    let Some(router) = router("the_kernels_tcp_gets_through_a_lossy_wire_unharmed", "b", |config| {
        (config.forward, config.back, config.seed) = (link.clone(), link.clone(), 11);
    }) else {
        return;
    };
    let listener = router.namespace(Direction::Back).within(|| TcpListener::bind("10.77.0.2:5000")).unwrap().unwrap();
    let content: Vec<u8> = (0..300_000u32).map(|number| (number / 7) as u8).collect();
    let expected = content.clone();
    let (router, received) = std::thread::scope(|scope| {
        let left = router.namespace(Direction::Forward).name().to_owned();
        let running = Running::start(router);
        let namespace = Namespace::open_or_make(&left).unwrap();
        scope.spawn(move || {
            let connect = || TcpStream::connect("10.77.0.2:5000");
            namespace.within(connect).unwrap().unwrap().write_all(&content).unwrap();
        });
        let mut received = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut received).unwrap();
        (running.stop(), received)
    });
    assert_eq!(received, expected);
    let counters = router.snapshot(Direction::Forward).counters;
    assert!(counters.losses > 0, "{counters:?}");
    assert!(counters.bytes_out > 300_000);
}

#[test]
fn a_namespace_that_was_there_stays() {
    let [name, other] = names("c");
    let made = Namespace::open_or_make(&name);
    let Ok(made) = made else {
        return tools::skip("a_namespace_that_was_there_stays", "root and iproute2");
    };
    let mut config = RouterConfig::new(&name, &other);
    config.left.address = "192.168.77.1/30".parse().unwrap();
    config.right.address = "192.168.77.2/30".parse().unwrap();
    drop(Router::open(config).unwrap());
    assert!(exists(&name) && !exists(&other));
    drop(made);
    assert!(!exists(&name));
}

#[test]
fn names_and_addresses_are_checked() {
    for name in ["", "a/b", "-n", "..", "a b"] {
        assert!(matches!(Namespace::open_or_make(name), Err(EmulatorError::NamespaceName { .. })), "{name:?}");
    }
    assert!(matches!(Router::open(RouterConfig::new("x", "x")), Err(EmulatorError::OneNamespace { .. })));
    for text in ["10.0.0.1", "10.0.0.1/33", "10.0.0/8", "::1/64"] {
        assert!(text.parse::<timeous_net::emulator::router::Ipv4Interface>().is_err(), "{text}");
    }
}

/// Not a test: what the next one starts in a process of its own, to kill it.
#[test]
#[ignore = "only a helper of a_namespace_goes_with_a_process_that_is_killed"]
fn hold_a_namespace_until_killed() {
    let _held = Namespace::open_or_make(&std::env::var("TIMEOUS_TEST_NAMESPACE").unwrap()).unwrap();
    println!("held");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_namespace_goes_with_a_process_that_is_killed() {
    let [name, _] = names("d");
    match Namespace::open_or_make(&name) {
        Ok(namespace) => drop(namespace),
        Err(_) => return tools::skip("a_namespace_goes_with_a_process_that_is_killed", "root and iproute2"),
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--nocapture", "router::hold_a_namespace_until_killed"])
        .env("TIMEOUS_TEST_NAMESPACE", &name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    let mut stdout = child.stdout.take().unwrap();
    while !said.ends_with(b"held\n") {
        let mut byte = [0];
        assert_eq!(stdout.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    assert!(exists(&name));
    child.kill().unwrap();
    child.wait().unwrap();
    // The namespace is removed by a process that nobody can wait for.
    for _ in 0..100 {
        if !exists(&name) {
            return;
        }
        #[expect(clippy::disallowed_methods, reason = "there is nothing else to wait for")]
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    panic!("{name} is still there");
}
