//! Datagrams of plain sockets, counted in the kernel for the daemon: a client need not report them.

use std::net::UdpSocket;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;

use timeous::clock;
use timeous::cm::{CongestionManager, FlowSpec, ManagerLocation};
use timeous_daemon::{Config, Daemon, DaemonError};

use crate::support::PATIENCE;

/// Root of the cgroups, version 2; `None` if none is mounted.
fn cgroups() -> Option<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let root = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>()).find(|words| words[2] == "cgroup2");
    root.map(|words| words[1].into())
}

#[test]
fn datagrams_of_plain_sockets_fill_their_macroflows_window() {
    let skip = |why: &dyn std::fmt::Display| {
        assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "may not be skipped: {why}");
        eprintln!("SKIPPED datagrams_of_plain_sockets: {why}");
    };
    let Some(cgroup) = cgroups() else { return skip(&"no cgroups of version 2 are mounted") };
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config::at(directory.path().join("daemon.sock"));
    config.count_datagrams = Some(cgroup);
    let (ready, bound) = mpsc::channel();
    let at = config.path.clone();
    // A daemon stays on the thread that created it.
    let thread = thread::spawn(move || match Daemon::bind(config) {
        Ok(daemon) => {
            ready.send(Ok(daemon.stopper())).unwrap();
            daemon.run().unwrap();
        }
        Err(error) => ready.send(Err(error)).unwrap(),
    });
    let stopper = match bound.recv().unwrap() {
        Ok(stopper) => stopper,
        Err(DaemonError::Datagrams(error)) if error.is_incapable() => return skip(&error),
        Err(error) => panic!("{error}"),
    };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let [local, remote] = [&sender, &receiver].map(|socket| socket.local_addr().unwrap());
    let cm = CongestionManager::open(ManagerLocation::Daemon(Some(at))).unwrap();
    let spec = FlowSpec { local: Some(local), remote: Some(remote), ..FlowSpec::to(remote.ip().into(), 1_200) };
    let flow = cm.open_flow(spec).unwrap();
    let other = cm.open_to(remote, 1_200).unwrap();
    let end = clock::now() + PATIENCE;
    // The flow is looked for a few times a second: until then nothing is counted.
    while cm.query(flow).unwrap().outstanding == 0 {
        assert!(clock::now() < end, "datagrams are not charged");
        sender.send_to(&[0; 1_000], remote).unwrap();
        let mut buffer = [0; 1_500];
        receiver.recv(&mut buffer).unwrap();
        cm.wait(Some(clock::now() + timeous::core::Duration::from_millis(5)));
    }
    let charged = cm.query(other).unwrap().outstanding;
    assert!(
        charged >= 1_000 && charged.is_multiple_of(1_000),
        "another flow of the macroflow has less room: {charged}"
    );
    stopper.stop();
    thread.join().unwrap();
}
