//! An engine builds the tables of the erasure code before a stream needs them, in a process of their own: memory shows it.

use std::fs;

use timeous_core::Duration;
use timeous_engine::{Carrier, Engine, StreamConfig, clock};

const PATIENCE: Duration = Duration::from_secs(20);
/// Size of a page in KiB, as Linux counts memory on most machines; larger pages make the bound below wider.
const PAGE: u64 = 4;
/// Lower bound of the tables' size in KiB: some 10 MB.
const TABLES: u64 = 4 << 10;

/// Returns the process's resident memory in KiB.
fn resident() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * PAGE
}

#[test]
fn tables_of_parity_are_built_when_the_first_stream_that_may_have_parity_is_opened() {
    let engine = Engine::start().unwrap();
    let local = "127.0.0.1:0".parse().unwrap();
    let _by_tcp = engine.listen(local, StreamConfig::new(Carrier::Tcp)).unwrap();
    let before = resident();
    let _by_udp = engine.listen(local, StreamConfig::new(Carrier::Udp)).unwrap();
    let end = clock::now() + PATIENCE;
    while resident() < before + TABLES {
        assert!(clock::now() < end, "{before} to {} KiB", resident());
        std::thread::yield_now();
    }
}
