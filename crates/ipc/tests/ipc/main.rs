//! Tests of both ends: messages, queues, a client with a daemon that is well, gone, stuck or hostile, two processes.
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

/// For what must happen; nothing is measured by it.
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

/// The next event, slept for.
fn next(client: &mut Client) -> Event {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(event) = client.poll_event() {
            return event;
        }
        assert!(client.wait(Some(deadline)), "no event came");
    }
}

/// A directory that is gone with the test, and a place for a socket in it.
fn place() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("daemon.sock");
    (dir, path)
}
