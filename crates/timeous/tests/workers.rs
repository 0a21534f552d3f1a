//! Several workers in one process. A test program of its own: the number holds for the whole process.

use std::net::UdpSocket;
use std::num::NonZeroUsize;

use timeous::cm::{self, CongestionManager, ManagerLocation};
use timeous::core::Duration;
use timeous::{Arrival, Culprit, Hints, Listener, Sender, WorkersFixed, clock, set_workers};

fn workers(count: usize) -> Result<(), WorkersFixed> {
    set_workers(NonZeroUsize::new(count).unwrap())
}

#[test]
fn several_workers_serve_one_listener_and_are_fixed_while_streams_run() {
    workers(3).unwrap();
    workers(2).unwrap();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let uri = format!("timeous://127.0.0.1:{port}?mode=listener").parse().unwrap();
    let mut listener = Listener::open(&uri).unwrap();
    let uri = format!("timeous://127.0.0.1:{}", listener.local_addr().port()).parse().unwrap();
    let mut sender = Sender::open(&uri).unwrap();
    sender.send(b"through its worker", Hints::default()).unwrap();
    let end = clock::now() + Duration::from_secs(10);
    let incoming = listener.accept(Some(end)).unwrap().expect("the caller");
    let (_back, mut receiver) = incoming.accept();
    match receiver.receive(Some(end)).unwrap() {
        Arrival::Data(received) => assert_eq!(received.bytes, b"through its worker"),
        other => panic!("{other:?}"),
    }
    assert_eq!(workers(1), Err(WorkersFixed(2)));
    let refused = CongestionManager::open(ManagerLocation::InProcess).unwrap_err();
    assert!(matches!(refused, cm::Error::SeveralWorkers(2)) && refused.culprit() == Culprit::Caller, "{refused}");
}
