//! Tests of both ends: messages, queues, a client with a working, absent, stuck or hostile daemon, and two processes.
#![cfg(not(loom))]

mod client;
mod hostile;
mod processes;
mod standin;
mod wire;

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use timeous_core::{Duration, Instant};
use timeous_ipc::{Client, Event, OpenFlow, Options};

/// Timeout of events that must happen; not a measurement.
const PATIENCE: Duration = Duration::from_secs(20);

fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::ZERO + Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)
}

fn options(path: &Path) -> Options {
    Options { path: path.to_owned(), name: "a test".to_owned(), timeout: PATIENCE }
}

fn flow() -> OpenFlow {
    OpenFlow::to(IpAddr::V4(Ipv4Addr::LOCALHOST), 1_200)
}

/// Waits for the next event.
fn next(client: &mut Client) -> Event {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(event) = client.poll_event() {
            return event;
        }
        assert!(client.wait(Some(deadline)), "no event came");
    }
}

/// Returns a temporary directory and a socket's path in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("daemon.sock");
    (dir, path)
}
