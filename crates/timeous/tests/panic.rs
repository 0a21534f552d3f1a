//! A late choice that panics. A test program of its own: it ends the thread that runs the process's streams.

use std::net::UdpSocket;
use std::thread;

use timeous::core::{Duration, Instant};
use timeous::{CloseReason, Error, Hints, LateChoice, PathState, Queue, Sender, Status, Uri, clock, open_both};

struct Broken;

impl LateChoice for Broken {
    fn choose(&mut self, _: Instant, _: &PathState, _: &mut dyn Queue) {
        panic!("an application's mistake");
    }
}

/// Opens both ends of a stream in this process.
fn open(choice: bool) -> (Sender, Sender) {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listener: Uri = format!("timeous://127.0.0.1:{port}?mode=listener").parse().unwrap();
    let listener = thread::spawn(move || open_both(&listener).unwrap().0);
    let mut caller: Uri = format!("timeous://127.0.0.1:{port}?timeout=10s").parse().unwrap();
    if choice {
        caller = caller.with_choice(|| Broken);
    }
    let sender = loop {
        match Sender::open(&caller) {
            Err(Error::NobodyListens { .. }) => thread::yield_now(),
            opened => break opened.unwrap(),
        }
    };
    (sender, listener.join().unwrap())
}

#[test]
fn it_ends_the_streams_and_new_ones_can_be_opened() {
    let (mut sender, other) = open(true);
    sender.send(b"one", Hints::default()).unwrap();
    let end = clock::now() + Duration::from_secs(10);
    for sender in [&sender, &other] {
        while !matches!(sender.status(), Status::Closed(CloseReason::Abandoned)) {
            assert!(clock::now() < end, "{:?}", sender.status());
            sender.wait(Some(end));
        }
    }
    assert!(matches!(sender.finish(), Err(Error::Closed(CloseReason::Abandoned))));
    let (mut sender, _other) = open(false);
    sender.send(b"two", Hints::default()).unwrap();
    sender.finish().unwrap();
}
