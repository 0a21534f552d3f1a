//! A process without free descriptors: its TCP listener waits for some, and resets callers that no stream is made for.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use rustix::net::{AddressFamily, SocketType, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use timeous_core::Duration;
use timeous_engine::{Carrier, Engine, StreamConfig, TcpConfig, Unordered, clock};

const PATIENCE: Duration = Duration::from_secs(10);

/// Processor time of the engine's thread.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let of_engine =
        |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "timeous-engine");
    let time = |path: PathBuf| {
        let stat = std::fs::read_to_string(path.join("schedstat")).unwrap();
        Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
    };
    tasks.filter(of_engine).map(time).next().expect("the engine runs")
}

/// Leaves `free` descriptors to the process, or all.
fn leave(free: Option<u64>) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // The lowest number that is free.
    let lowest = File::open("/dev/null").map_or(0, |file| file.as_raw_fd() as u64);
    let current = free.map_or(maximum, |free| Some(lowest + free));
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

/// Number of open descriptors, with that of the directory.
fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Waits until the engine has closed what it let go: a number that becomes free later is one more than the test leaves.
fn until_closed() {
    let (mut count, mut since) = (open_descriptors(), clock::now());
    while clock::now() - since < Duration::from_millis(500) {
        std::thread::park_timeout(std::time::Duration::from_millis(5));
        if open_descriptors() != count {
            (count, since) = (open_descriptors(), clock::now());
        }
    }
}

/// One test: the limit is the process's.
#[test]
fn a_listener_without_descriptors_does_not_spin_and_resets_whom_it_cannot_serve() {
    leave(None);
    let engine = Engine::start().unwrap();
    let config = StreamConfig::new(Carrier::Tcp);
    let mut listener = engine.listen("127.0.0.1:0".parse().unwrap(), config.clone()).unwrap();
    let caller = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let before = processor_time();
    leave(Some(0));
    connect(&caller, &listener.local_addr()).unwrap();
    std::thread::park_timeout(std::time::Duration::from_secs(1));
    leave(None);
    let used = processor_time().saturating_sub(before);
    assert!(used < Duration::from_millis(200), "{used:?} of a second");
    assert!(listener.accept(Some(clock::now() + PATIENCE)).is_some(), "it was not lost");
    drop((listener, caller));
    until_closed();

    // A stream that requires a packet tap needs a descriptor more than its caller leaves.
    let tcp = TcpConfig { unordered: Unordered::Require, ..TcpConfig::default() };
    let listener = match engine.listen("127.0.0.1:0".parse().unwrap(), StreamConfig { tcp, ..config }) {
        Ok(listener) => listener,
        Err(error) => {
            assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "{error}");
            eprintln!("SKIPPED packet tap: {error}");
            return;
        }
    };
    let local: SocketAddr = listener.local_addr();
    let caller = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    until_closed();
    leave(Some(1));
    connect(&caller, &local).unwrap();
    let mut caller = TcpStream::from(caller);
    caller.set_read_timeout(Some(PATIENCE.into())).unwrap();
    // The first call after a reset has the error: the write if the reset is already there.
    let read = caller.write_all(b"acknowledged, and lost").and_then(|()| caller.read(&mut [0]));
    leave(None);
    assert_eq!(read.map_err(|error| error.kind()), Err(ErrorKind::ConnectionReset), "an orderly close hides the loss");
}
