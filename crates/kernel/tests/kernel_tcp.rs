//! The kernel's TCP as a client, on this machine's kernel: the program is loaded, used by ordinary sockets, and removed.

#![cfg(feature = "bpf")]

mod test_network;

use std::fs;
use std::io::Write;

use rustix::net::sockopt::{self, tcp_congestion};
use test_network::{LoadedProgram, RIGHT, TestNetwork, need, pair, transfer};
use timeous_cm::{FlowId, Loss, Manager, Update};
use timeous_core::{Duration, Instant};
use timeous_kernel::{Companion, Installed, KernelError, Macroflow, Settings, SocketSelection};

fn available(name: &str) -> bool {
    let list = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    list.split_whitespace().any(|word| word == name)
}

fn wait_a_little() {
    let _ = rustix::thread::nanosleep(&rustix::fs::Timespec { tv_sec: 0, tv_nsec: 5_000_000 });
}

/// Waits until the first macroflow fulfils `so`, for example until all data is acknowledged; returns the macroflows.
fn until(loaded: &LoadedProgram, so: impl Fn(&Macroflow) -> bool) -> Vec<Macroflow> {
    loop {
        let macroflows = loaded.installed().macroflows().unwrap();
        if so(&macroflows[0]) {
            return macroflows;
        }
        wait_a_little();
    }
}

/// Loads the program and creates a link.
fn ready(test: &str) -> Option<(TestNetwork, LoadedProgram)> {
    let loaded = need(test, LoadedProgram::new(test))?;
    Some((need(test, TestNetwork::make(test))?, loaded))
}

#[test]
fn a_connection_that_asks_by_name_draws_its_window_from_a_macroflow() {
    let Some((network, loaded)) = ready("named") else { return };
    let (sending, receiving) = pair(&network, RIGHT, Some(&loaded.name));
    transfer(&sending, &receiving, 1_000_000);
    let macroflows = until(&loaded, |macroflow| macroflow.committed == 0);
    let [macroflow] = &macroflows[..] else { panic!("{macroflows:?}") };
    assert_eq!((macroflow.path.addr, macroflow.flows), (RIGHT.parse().unwrap(), 1));
    assert!(macroflow.acked >= 1_000_000, "{macroflow:?}");
    let round_trip = macroflow.min_rtt.unwrap();
    assert!(round_trip >= Duration::from_millis(40) && round_trip < Duration::from_millis(60), "{macroflow:?}");
    let flows = network.left.within(|| loaded.installed().flows()).unwrap().unwrap();
    let [flow] = &flows[..] else { panic!("{flows:?}") };
    assert_eq!((flow.local, flow.remote), (sending.local_addr().unwrap(), sending.peer_addr().unwrap()));
    assert!(u64::from(flow.window * flow.mss) <= macroflow.window, "{flow:?} of {macroflow:?}");
    assert_eq!(loaded.installed().flows().unwrap(), [], "other namespaces have no connections");
    drop((sending, receiving));
}

#[test]
fn the_next_connection_starts_from_what_the_path_bears() {
    let Some((network, loaded)) = ready("next") else { return };
    let first = pair(&network, RIGHT, Some(&loaded.name));
    transfer(&first.0, &first.1, 500_000);
    drop(first);
    // The last acknowledgements still increase the window.
    let known = until(&loaded, |macroflow| macroflow.flows == 0 && macroflow.committed == 0)[0].window;
    let next = pair(&network, RIGHT, Some(&loaded.name));
    let flows = network.left.within(|| loaded.installed().flows()).unwrap().unwrap();
    let flow = flows.iter().find(|flow| flow.remote == next.0.peer_addr().unwrap()).unwrap();
    assert!(flow.window > 20, "Linux would start with 10 packets: {flow:?}");
    let window = u64::from(flow.window * flow.mss);
    assert!(window <= known && window + u64::from(flow.mss) > known, "{flow:?} of {known}");
}

#[test]
fn connections_share_one_window() {
    let Some((network, loaded)) = ready("share") else { return };
    let pairs: Vec<_> = (0..4).map(|_| pair(&network, RIGHT, Some(&loaded.name))).collect();
    std::thread::scope(|scope| {
        for (sending, receiving) in &pairs {
            scope.spawn(|| transfer(sending, receiving, 700_000));
        }
        let looks = scope.spawn(|| {
            let mut most = 0;
            for _ in 0..100 {
                let macroflow = loaded.installed().macroflows().unwrap()[0];
                // Each flow may have one packet, however small the window is; commitments from before a reduction end with
                // acknowledgements.
                if macroflow.losses == 0 {
                    let most = macroflow.window + 4 * u64::from(macroflow.mss);
                    assert!(macroflow.committed <= most, "{macroflow:?}");
                }
                most = most.max(macroflow.hungry);
                wait_a_little();
            }
            most
        });
        assert_eq!(looks.join().unwrap(), 4, "all four want to send");
    });
    let macroflow = loaded.installed().macroflows().unwrap()[0];
    assert_eq!((macroflow.flows, macroflow.opened), (4, 4));
    drop(pairs);
}

#[test]
fn the_default_and_a_route_serve_programs_that_know_nothing_of_it_and_are_put_back() {
    let Some((network, loaded)) = ready("wish") else { return };
    let file = tempfile::tempdir().unwrap();
    let file = file.path().join("changes.json");
    let before = network.left.sysctl("net/ipv4/tcp_congestion_control").unwrap();
    for wish in [
        SocketSelection { default: true, routes: Vec::new() },
        SocketSelection { default: false, routes: vec![RIGHT.to_owned()] },
        SocketSelection { default: false, routes: vec!["10.77.0.0/24".to_owned()] },
    ] {
        let apply = || Settings::apply(&file, &loaded.name, &loaded.at, &wish);
        let settings = network.left.within(apply).unwrap().unwrap();
        let during = pair(&network, RIGHT, None);
        assert_eq!(tcp_congestion(&during.0).unwrap(), loaded.name, "{wish:?}");
        transfer(&during.0, &during.1, 10_000);
        // As after a crash: only the file's content is known.
        let read = Settings::read(&file).unwrap().unwrap();
        assert_eq!(read, settings);
        assert!(matches!(read.undo(&file), Err(KernelError::OtherNamespace { .. })));
        network.left.within(|| read.undo(&file)).unwrap().unwrap();
        let after = pair(&network, RIGHT, None);
        assert_eq!(tcp_congestion(&after.0).unwrap(), before, "{wish:?}");
        assert_eq!(Settings::read(&file).unwrap(), None);
    }
    assert_eq!(network.left.sysctl("net/ipv4/tcp_congestion_control").unwrap(), before);
    let nowhere = SocketSelection { default: true, routes: vec!["127.0.0.1".to_owned()] };
    let refused = network.left.within(|| Settings::apply(&file, &loaded.name, &loaded.at, &nowhere)).unwrap();
    assert!(matches!(refused, Err(KernelError::Route { .. })), "{refused:?}");
    assert_eq!(network.left.sysctl("net/ipv4/tcp_congestion_control").unwrap(), before, "nothing was changed");
}

#[test]
fn connections_in_flight_survive_its_removal() {
    let Some((network, mut loaded)) = ready("remove") else { return };
    let (sending, receiving) = pair(&network, RIGHT, Some(&loaded.name));
    transfer(&sending, &receiving, 100_000);
    // As after a crash: the process that loaded the program is gone, and another one finds it.
    drop(loaded.installed.take());
    assert!(available(&loaded.name));
    let again = Installed::load(&loaded.at, &loaded.name);
    assert!(matches!(again, Err(KernelError::AlreadyLoaded { .. })), "{again:?}");
    let mut companion = Companion::open(&loaded.at).unwrap();
    companion.exchange(Instant::ZERO, &mut Manager::default()).unwrap();
    Installed::open(&loaded.at).unwrap().remove("cubic").unwrap();
    let none = companion.exchange(Instant::ZERO, &mut Manager::default());
    assert!(matches!(none, Err(KernelError::NotLoaded { .. })), "the daemon hears of it: {none:?}");
    assert!(!available(&loaded.name));
    assert!(matches!(Installed::open(&loaded.at), Err(KernelError::NotLoaded { .. })));
    transfer(&sending, &receiving, 100_000);
    let fallback = if available("cubic") { "cubic" } else { "reno" };
    assert_eq!(tcp_congestion(&sending).unwrap(), fallback);
    let ours = Installed::load(&loaded.at, &loaded.name);
    loaded.installed = Some(ours.unwrap());
    assert_eq!(loaded.installed().macroflows().unwrap(), [], "nothing of the one before is left");
}

#[test]
fn ipv6_has_macroflows_too() {
    let Some((network, loaded)) = ready("ipv6") else { return };
    network.right.ip(&["link", "set", "lo", "up"]).unwrap();
    let listener = network.right.within(|| std::net::TcpListener::bind("[::1]:0")).unwrap().unwrap();
    let address = listener.local_addr().unwrap();
    let sending = network.right.within(|| std::net::TcpStream::connect(address)).unwrap().unwrap();
    rustix::net::sockopt::set_tcp_congestion(&sending, &loaded.name).unwrap();
    transfer(&sending, &listener.accept().unwrap().0, 1_000_000);
    let macroflows = loaded.installed().macroflows().unwrap();
    assert_eq!(macroflows.len(), 1, "{macroflows:?}");
    assert_eq!(macroflows[0].path.addr, "::1".parse::<std::net::IpAddr>().unwrap());
    let flows = network.right.within(|| loaded.installed().flows()).unwrap().unwrap();
    assert_eq!(flows[0].local, sending.local_addr().unwrap());
}

#[test]
fn idle_macroflows_are_forgotten_and_busy_ones_are_not() {
    let Some((network, loaded)) = ready("forget") else { return };
    let (sending, receiving) = pair(&network, RIGHT, Some(&loaded.name));
    transfer(&sending, &receiving, 10_000);
    assert_eq!(loaded.installed().forget_idle(Duration::ZERO).unwrap(), 0);
    drop((sending, receiving));
    assert_eq!(loaded.installed().forget_idle(Duration::from_secs(60)).unwrap(), 0);
    until(&loaded, |macroflow| macroflow.flows == 0);
    assert_eq!(loaded.installed().forget_idle(Duration::ZERO).unwrap(), 1);
    assert_eq!(loaded.installed().macroflows().unwrap(), []);
}

#[test]
fn a_name_that_cannot_be_one_is_refused() {
    let at = std::path::Path::new(timeous_kernel::PINNED).with_file_name("timeous_no");
    for name in ["", "sixteen_letters_", "a b"] {
        let refused = Installed::load(&at, name);
        let expected = |error: &KernelError| matches!(error, KernelError::Name { .. }) || error.is_incapable();
        assert!(refused.as_ref().is_err_and(expected), "{name:?}: {refused:?}");
    }
    let none = Companion::open(&at);
    assert!(none.as_ref().is_err_and(|error| matches!(error, KernelError::NotLoaded { .. })), "{none:?}");
}

/// A flow of the daemon that always has data. Half of its data in flight is acknowledged each time, so that some remains.
struct Bulk {
    manager: Manager,
    flow: FlowId,
    now: Instant,
    under_way: u64,
}

impl Bulk {
    const PACKET: u64 = 1_000;

    fn new() -> Self {
        let mut manager = Manager::default();
        let destination = RIGHT.parse::<std::net::IpAddr>().unwrap().into();
        let flow = manager.open(destination, Self::PACKET);
        Self { manager, flow, now: Instant::ZERO + Duration::from_secs(1), under_way: 0 }
    }

    /// Simulates a round trip: the window is filled, and half of it arrives, or some of it is lost.
    fn round(&mut self, lost: bool) {
        while self.manager.ask(self.now, self.flow).unwrap().is_some() {
            self.manager.notify(self.now, self.flow, Self::PACKET).unwrap();
            self.under_way += Self::PACKET;
            self.now += Duration::from_micros(100);
        }
        let sent_at = self.now;
        self.now += Duration::from_millis(45);
        let told = self.under_way / 2 / Self::PACKET * Self::PACKET;
        let rtt = Some(self.now.saturating_since(sent_at));
        let update = match lost {
            true => Update { lost: told, loss: Some((Loss::Transient, sent_at)), ..Update::default() },
            false => Update { acked: told, rtt, ..Update::default() },
        };
        self.manager.update(self.now, self.flow, update).unwrap();
        self.under_way -= told;
    }
}

#[test]
fn the_daemons_flows_share_the_window_with_connections() {
    let Some((network, loaded)) = ready("daemon") else { return };
    let (sending, receiving) = pair(&network, RIGHT, Some(&loaded.name));
    let alone = std::thread::scope(|scope| {
        let transfer = scope.spawn(|| transfer(&sending, &receiving, 3_000_000));
        let shared = scope.spawn(|| network.left.within(|| share_with_the_daemon(&loaded)).unwrap());
        let (shared, alone) = shared.join().unwrap();
        assert!((0.3..=0.7).contains(&shared), "the daemon has {shared} of the window");
        transfer.join().unwrap();
        alone
    });
    assert_eq!(alone, 0, "the daemon's flow is gone");
    let macroflow = until(&loaded, |macroflow| macroflow.committed == 0)[0];
    assert_eq!((macroflow.companions, macroflow.hungry), (0, 0), "{macroflow:?}");
}

/// Returns the daemon's part of the window beside a connection, and the number of its flows some time after they ended.
fn share_with_the_daemon(loaded: &LoadedProgram) -> (f64, u64) {
    let look = || loaded.installed().macroflows().unwrap()[0];
    let mut companion = Companion::open(&loaded.at).unwrap();
    let mut bulk = Bulk::new();
    let mut part = 0.0;
    for _ in 0..20 {
        bulk.round(false);
        companion.exchange(bulk.now, &mut bulk.manager).unwrap();
        assert!(companion.is_shared());
        part = bulk.manager.query(bulk.flow).unwrap().window as f64 / look().window as f64;
        (0..4).for_each(|_| wait_a_little());
    }
    let before = look();
    assert_eq!(before.companions, 1);
    bulk.round(true);
    companion.exchange(bulk.now, &mut bulk.manager).unwrap();
    let after = look();
    assert!(after.losses > before.losses && after.window < before.window, "{before:?} {after:?}");
    bulk.manager.close(bulk.now, bulk.flow).unwrap();
    drop(companion);
    (0..220).for_each(|_| wait_a_little());
    (part, look().companions)
}

/// Many connections at once that end in order or are reset while sending, over a queue that overflows.
#[test]
fn nothing_is_held_by_connections_that_are_gone() {
    let Some((network, loaded)) = ready("gone") else { return };
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (network, loaded) = (&network, &loaded);
            scope.spawn(move || {
                for number in 0..12 {
                    let (sending, receiving) = pair(network, RIGHT, Some(&loaded.name));
                    if (thread + number) % 3 > 0 {
                        transfer(&sending, &receiving, 30_000);
                    } else {
                        sockopt::set_socket_linger(&sending, Some(std::time::Duration::ZERO)).unwrap();
                        sending.set_nonblocking(true).unwrap();
                        let _ = (&sending).write(&[7; 200_000]);
                        wait_a_little();
                    }
                }
            });
        }
    });
    let macroflow = until(&loaded, |macroflow| macroflow.flows == 0)[0];
    assert_eq!((macroflow.opened, macroflow.committed, macroflow.hungry), (96, 0, 0), "{macroflow:?}");
    // The next connection gets the whole window.
    let (sending, receiving) = pair(&network, RIGHT, Some(&loaded.name));
    let flows = network.left.within(|| loaded.installed().flows()).unwrap().unwrap();
    let flow = flows.iter().find(|flow| flow.remote == sending.peer_addr().unwrap()).unwrap();
    let macroflow = loaded.installed().macroflows().unwrap()[0];
    assert!(u64::from((flow.window + 1) * flow.mss) > macroflow.window, "{flow:?} of {macroflow:?}");
    transfer(&sending, &receiving, 100_000);
}
