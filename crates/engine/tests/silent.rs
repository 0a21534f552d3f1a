//! Callers over plain TCP that say nothing, at a listener with one place that only receives.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};

use timeous_core::{AduMeta, Duration};
use timeous_engine::{Carrier, Engine, Status, StreamConfig, TcpConfig, clock};

const PATIENCE: Duration = Duration::from_secs(20);

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

fn config(carrier: Carrier, awaits_data: bool) -> StreamConfig {
    let tcp = TcpConfig { awaits_data, ..TcpConfig::default() };
    StreamConfig { tcp, slots: 64, ..StreamConfig::new(carrier) }
}

#[test]
fn a_silent_caller_takes_no_place_where_data_is_awaited() {
    let engine = Engine::start().unwrap();
    for carrier in [Carrier::Tcp, Carrier::Auto] {
        let mut listener = engine.listen_with_room(local(), config(carrier, true), Some(1)).unwrap();
        let at = listener.local_addr();
        let mut silent = TcpStream::connect(at).unwrap();
        // Longer than a listener with a UDP port beside it waits for a stream's first record.
        assert!(listener.accept(Some(clock::now() + Duration::from_millis(1_200))).is_none(), "{carrier:?}");
        let mut near = engine.connect(at, config(Carrier::Tcp, false)).unwrap();
        near.sending().enqueue(&AduMeta::default(), b"hello").unwrap();
        let mut far = listener.accept(Some(clock::now() + PATIENCE)).expect("the caller that sends");
        let end = clock::now() + PATIENCE;
        let first = loop {
            if let Some(first) = far.receiving().poll_received() {
                break first;
            }
            assert!(clock::now() < end);
            far.receiving().wait(Some(end));
        };
        assert_eq!((&first.bytes[..], near.status()), (&b"hello"[..], Status::Open));
        if carrier == Carrier::Tcp {
            // The place is taken: the other one is told that the listener is busy.
            silent.set_read_timeout(Some(PATIENCE.into())).unwrap();
            let told = silent.read(&mut [0; 8]).map_err(|error| error.kind());
            assert_eq!(told, Err(ErrorKind::ConnectionReset));
        }
    }
}

#[test]
fn a_silent_caller_takes_no_place_that_becomes_free() {
    let engine = Engine::start().unwrap();
    let mut listener = engine.listen_with_room(local(), config(Carrier::Tcp, true), Some(0)).unwrap();
    let at = listener.local_addr();
    for _ in 0..100 {
        let silent: Vec<_> = (0..8).map(|_| TcpStream::connect(at)).collect();
        // The engine refuses them while the place becomes free.
        listener.set_room(Some(1));
        drop(silent);
        assert!(listener.poll_accept().is_none());
        listener.set_room(Some(0));
    }
    assert!(listener.accept(Some(clock::now() + Duration::from_millis(200))).is_none());
}

#[test]
fn a_silent_caller_is_a_stream_where_it_may_want_to_receive() {
    let engine = Engine::start().unwrap();
    let mut listener = engine.listen(local(), config(Carrier::Tcp, false)).unwrap();
    let _silent = TcpStream::connect(listener.local_addr()).unwrap();
    assert!(listener.accept(Some(clock::now() + PATIENCE)).is_some());
}
