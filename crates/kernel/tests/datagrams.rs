//! Datagrams of plain sockets are charged to their macroflows, on this machine's kernel.

#![cfg(feature = "bpf")]

use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;

use timeous_cm::{FlowId, FlowSpec, Kind, Manager};
use timeous_core::{Duration, Instant};
use timeous_kernel::{DatagramCounter, KernelError};

/// Root of the cgroups, version 2; `None` if none is mounted.
fn cgroups() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").ok()?;
    let found = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words[2] == "cgroup2");
    found.map(|words| words[1].into())
}

fn counter(test: &str) -> Option<DatagramCounter> {
    let counter = match cgroups() {
        Some(root) => DatagramCounter::attach(&root),
        None => Err(KernelError::CannotCount { why: "no cgroups of version 2 are mounted".to_owned() }),
    };
    match counter {
        Ok(counter) => Some(counter),
        Err(error) => {
            let required = std::env::var_os("TIMEOUS_REQUIRE_ALL").is_some_and(|value| value == "1");
            assert!(!required && error.is_incapable(), "{test}: {error}");
            eprintln!("SKIPPED {test}: {error}");
            None
        }
    }
}

fn at(round: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(1) + Duration::from_millis(10) * round
}

/// Manager with a client, and a socket of that client with its flow.
struct Host {
    manager: Manager,
    client: timeous_cm::ClientId,
}

impl Host {
    fn new() -> Self {
        let mut manager = Manager::new(Kind::Aimd.constructor());
        let client = manager.join();
        Self { manager, client }
    }

    fn open(&mut self, local: SocketAddr, remote: SocketAddr) -> FlowId {
        let spec = FlowSpec { local: Some(local), remote: Some(remote), ..FlowSpec::to(remote.ip().into(), 1_200) };
        self.manager.open_for(at(0), self.client, spec).unwrap()
    }

    fn in_flight(&self, flow: FlowId) -> u64 {
        self.manager.query(flow).unwrap().outstanding
    }
}

fn sockets(address: &str) -> (UdpSocket, UdpSocket) {
    let receiver = UdpSocket::bind((address, 0)).unwrap();
    let sender = UdpSocket::bind((address, 0)).unwrap();
    sender.connect(receiver.local_addr().unwrap()).unwrap();
    (sender, receiver)
}

#[test]
fn datagrams_of_plain_sockets_are_charged_and_others_are_not() {
    let Some(mut counter) = counter("datagrams_of_plain_sockets") else { return };
    for address in ["127.0.0.1", "::1"] {
        let mut host = Host::new();
        let (sender, receiver) = sockets(address);
        let (other, _) = sockets(address);
        let flow = host.open(sender.local_addr().unwrap(), receiver.local_addr().unwrap());
        sender.send(&[0; 900]).unwrap();
        counter.charge(at(0), &mut host.manager).unwrap();
        assert!(counter.is_watching());
        sender.send(&[0; 1_000]).unwrap();
        sender.send(&[0; 3_000]).unwrap();
        let _ = other.send(&[0; 700]);
        counter.charge(at(1), &mut host.manager).unwrap();
        assert_eq!(host.in_flight(flow), 0, "the client may be about to report them");
        counter.charge(at(2), &mut host.manager).unwrap();
        assert_eq!(host.in_flight(flow), 4_000, "from {address}");
        counter.charge(at(3), &mut host.manager).unwrap();
        assert_eq!(host.in_flight(flow), 4_000, "once");
        host.manager.close(at(4), flow).unwrap();
        counter.charge(at(4), &mut host.manager).unwrap();
        assert!(!counter.is_watching());
    }
}

#[test]
fn what_the_client_reports_itself_is_not_charged_twice() {
    let Some(mut counter) = counter("what_the_client_reports") else { return };
    let mut host = Host::new();
    let (sender, receiver) = sockets("127.0.0.1");
    let flow = host.open(sender.local_addr().unwrap(), receiver.local_addr().unwrap());
    counter.charge(at(0), &mut host.manager).unwrap();
    for round in 1..10 {
        sender.send(&[0; 1_000]).unwrap();
        // The report comes after the round, as from another process.
        counter.charge(at(round), &mut host.manager).unwrap();
        host.manager.notify_unasked(at(round), flow, 1_000).unwrap();
    }
    counter.charge(at(10), &mut host.manager).unwrap();
    assert_eq!(host.in_flight(flow), 9_000);
}
