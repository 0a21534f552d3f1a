//! Engine with several workers: each host's streams are with one of them, and a shared port closes when all are done.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;

use timeous_core::{AduMeta, Duration, Instant};
use timeous_engine::{Carrier, DccpConfig, Engine, Status, Stream, StreamConfig, clock};

const PATIENCE: Duration = Duration::from_secs(20);

fn config() -> StreamConfig {
    let dccp = DccpConfig { msl: Duration::from_millis(10), ..DccpConfig::default() };
    StreamConfig { dccp, ..StreamConfig::new(Carrier::Udp) }
}

fn wait_for<T>(what: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(found) = poll() {
            return found;
        }
        assert!(clock::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn deliver(from: &mut Stream, to: &mut Stream, bytes: &[u8]) {
    let meta = AduMeta { deadline: Some(Instant::FAR_FUTURE), ..AduMeta::default() };
    from.sending().enqueue(&meta, bytes).unwrap();
    let received = wait_for("the datagram arrives", || to.receiving().poll_received());
    assert_eq!(received.bytes, bytes);
}

fn flows(engine: &Engine, host: IpAddr) -> usize {
    let view = engine.congestion_of(host).lock().snapshot();
    view.macroflows.iter().filter(|one| one.destination.addr == host).map(|one| one.flows.len()).sum()
}

#[test]
fn streams_are_with_the_worker_of_their_host() {
    let engine = Engine::with_workers(NonZeroUsize::new(3).unwrap()).unwrap();
    let mut listener = engine.listen("127.0.0.1:0".parse().unwrap(), config()).unwrap();
    let callers = Engine::with_workers(NonZeroUsize::new(2).unwrap()).unwrap();
    let mut pairs: Vec<(Stream, Stream)> = Vec::new();
    for _ in 0..3 {
        let mut calling = callers.connect(listener.local_addr(), config()).unwrap();
        let mut called = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
        assert_eq!(called.status(), Status::Open, "an accepted stream is open");
        deliver(&mut calling, &mut called, b"there");
        deliver(&mut called, &mut calling, b"and back");
        pairs.push((calling, called));
    }
    let host: IpAddr = [127, 0, 0, 1].into();
    assert_eq!((flows(&callers, host), flows(&engine, host)), (3, 3));
    assert_ne!(callers.congestion_of(host).lock().snapshot().macroflows.len(), 0);
    // Another host is with another worker.
    assert_eq!(callers.congestion_of([127, 0, 0, 2].into()).lock().snapshot().macroflows.len(), 0);
}

#[test]
fn a_shared_port_is_closed_when_no_worker_uses_it() {
    let engine = Engine::with_workers(NonZeroUsize::new(3).unwrap()).unwrap();
    let mut listener = engine.listen("127.0.0.1:0".parse().unwrap(), config()).unwrap();
    let local: SocketAddr = listener.local_addr();
    let callers = Engine::start().unwrap();
    let mut calling = callers.connect(local, config()).unwrap();
    let mut called = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
    drop(listener);
    deliver(&mut calling, &mut called, b"a stream goes on without its listener");
    assert!(UdpSocket::bind(local).is_err());
    drop(calling);
    wait_for("the peer's end is seen", || matches!(called.status(), Status::Closed(_)).then_some(()));
    drop(called);
    wait_for("the port is free", || UdpSocket::bind(local).ok());
}
