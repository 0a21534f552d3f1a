//! An engine builds the tables of the erasure code before a stream needs them, in a process of their own: memory shows it.

mod memory;

use memory::resident;
use timeous_core::Duration;
use timeous_engine::{Carrier, Engine, StreamConfig, clock};

const PATIENCE: Duration = Duration::from_secs(20);
/// Lower bound of the tables' size in bytes: some 10 MB.
const TABLES: u64 = 4 << 20;

#[test]
fn tables_of_parity_are_built_when_the_first_stream_that_may_have_parity_is_opened() {
    let engine = Engine::start().unwrap();
    let local = "127.0.0.1:0".parse().unwrap();
    let _by_tcp = engine.listen(local, StreamConfig::new(Carrier::Tcp)).unwrap();
    let before = resident();
    let _by_udp = engine.listen(local, StreamConfig::new(Carrier::Udp)).unwrap();
    let end = clock::now() + PATIENCE;
    while resident() < before + TABLES {
        assert!(clock::now() < end, "{before} to {} bytes", resident());
        std::thread::yield_now();
    }
    // Waits for the engine's thread, which builds the same tables.
    timeous_dccp::prepare_parity();
    let prepared = resident();
    // A block of a video frame, of which a quarter is lost, needs no others.
    let shards: Vec<Vec<u8>> = (0..20).map(|n| vec![n; 1_024]).collect();
    let parity = reed_solomon_simd::encode(20, 5, &shards).unwrap();
    let left = shards.iter().enumerate().skip(5);
    let rebuilt = reed_solomon_simd::decode(20, 5, left, parity.iter().enumerate()).unwrap();
    assert_eq!(rebuilt[&3], shards[3]);
    assert!(resident() < prepared + TABLES / 2, "{before} to {prepared}, then {} bytes", resident());
}
