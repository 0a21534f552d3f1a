//! Tests of late choices that the application brings, over real sockets.

use std::collections::BTreeMap;
use std::thread;

use timeous::choice::{Chain, Deadlines};
use timeous::core::{Duration, Fate, Instant, Rate};
use timeous::{
    Arrival, Culprit, DialEvent, Dialer, DropReason, Error, Hints, LateChoice, Listener, PathState, Queue, Receiver,
    Sender, Uri, clock, open_both,
};
use timeous_net::LinkConfig;
use timeous_net::link::{Capacity, Limit};

use crate::support::{OddOnly, PATIENCE, TestLink, fates, free_port, patience, patiently, uri};

/// Drops all but the newest ADU.
struct Newest;

impl LateChoice for Newest {
    fn choose(&mut self, _: Instant, _: &PathState, queue: &mut dyn Queue) {
        for stale in 0..queue.len().saturating_sub(1) {
            queue.drop_at(stale, DropReason::Policy);
        }
    }
}

/// Sends ten ADUs, of which only those with odd numbers arrive.
fn send_ten(sender: &mut Sender) {
    for n in 0..10 {
        sender.send(&[n], Hints::default()).unwrap();
    }
    let expected: BTreeMap<u64, Fate> =
        (0..10).map(|n| (n, if n % 2 == 0 { Fate::Dropped(DropReason::Policy) } else { Fate::Acked })).collect();
    assert_eq!(fates(sender), expected);
}

fn receive_odd(receiver: &mut Receiver) {
    for n in [1, 3, 5, 7, 9] {
        let arrival = receiver.receive(patience()).unwrap();
        assert!(matches!(&arrival, Arrival::Data(data) if data.bytes == [n]), "{n}: {arrival:?}");
    }
}

fn listening(port: u16, query: &str) -> Uri {
    uri(&format!("timeous://127.0.0.1:{port}?mode=listener&latency=9s&{query}"))
}

fn calling(port: u16, query: &str) -> Uri {
    uri(&format!("timeous://127.0.0.1:{port}?latency=9s&{query}"))
}

#[test]
fn the_own_choice_of_either_end_decides_over_each_transport() {
    for transport in ["transport=dccp", "transport=tcp", "transport=auto"] {
        let port = free_port();
        let listener = listening(port, transport).with_choice(|| OddOnly);
        let listener = thread::spawn(move || open_both(&listener).unwrap());
        let caller = calling(port, transport).with_choice(|| Chain::default().then(Deadlines).then(OddOnly));
        let (mut near_sender, mut near_receiver) = patiently(|| open_both(&caller));
        let (mut far_sender, mut far_receiver) = listener.join().unwrap();
        send_ten(&mut near_sender);
        send_ten(&mut far_sender);
        receive_odd(&mut far_receiver);
        receive_odd(&mut near_receiver);
    }
}

#[test]
fn each_stream_of_a_listener_and_of_a_dialer_has_an_own_choice() {
    let port = free_port();
    let mut listener = Listener::open(&listening(port, "").with_choice(|| OddOnly)).unwrap();
    let dialer = Dialer::new(calling(port, "").with_choice(|| OddOnly)).unwrap();
    for _ in 0..2 {
        let (mut far_sender, mut far_receiver) = listener.accept(patience()).unwrap().expect("a caller").accept();
        let end = clock::now() + PATIENCE;
        let (mut near_sender, mut near_receiver) = loop {
            match dialer.poll() {
                Some(DialEvent::Connected(sender, receiver)) => break (sender, receiver),
                Some(other) => panic!("{other:?}"),
                None => assert!(dialer.wait(Some(end)), "nothing happens"),
            }
        };
        send_ten(&mut near_sender);
        send_ten(&mut far_sender);
        receive_odd(&mut far_receiver);
        receive_odd(&mut near_receiver);
        dialer.redial();
    }
}

#[test]
fn over_a_narrow_link_the_newest_leaves_first_and_older_ones_do_not() {
    let port = free_port();
    let forward = LinkConfig {
        capacity: Capacity::Fixed(Rate::from_kbps(400)),
        delay: Duration::from_millis(50),
        queue: Limit::Time(Duration::from_millis(300)),
        ..LinkConfig::default()
    };
    let link = TestLink::to(port, forward, LinkConfig::default());
    let listener = listening(port, "");
    let receiver = thread::spawn(move || Receiver::open(&listener).unwrap());
    let caller = uri(&format!("timeous://{}?latency=9s", link.near)).with_choice(|| Newest);
    let mut sender = patiently(|| Sender::open(&caller));
    let mut receiver = receiver.join().unwrap();
    for n in 0..500u32 {
        sender.send(&[&n.to_be_bytes()[..], &[7; 996]].concat(), Hints::default()).unwrap();
    }
    let fates = fates(&mut sender);
    assert_eq!((fates.len(), fates[&499]), (500, Fate::Acked));
    let dropped = fates.values().filter(|&&fate| fate == Fate::Dropped(DropReason::Policy)).count();
    // The first window leaves before newer ones are queued.
    assert!(dropped > 300, "{dropped} of 500");
    sender.finish().unwrap();
    let mut last = None;
    while let Arrival::Data(data) = receiver.receive(patience()).unwrap() {
        last = last.max(data.bytes.first_chunk().map(|number| u32::from_be_bytes(*number)));
    }
    assert_eq!(last, Some(499));
}

#[test]
fn an_own_choice_that_would_not_decide_is_refused_as_the_callers_fault() {
    let refused = |query: &str| {
        let port = free_port();
        let errors = [
            Sender::open(&calling(port, query).with_choice(|| OddOnly)).map(drop).unwrap_err(),
            Receiver::open(&listening(port, query).with_choice(|| OddOnly)).map(drop).unwrap_err(),
            Listener::open(&listening(port, query).with_choice(|| OddOnly)).map(drop).unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.culprit(), Culprit::Caller, "{error}");
            assert!(matches!(error, Error::Uri(_)), "{error}");
            assert!(error.to_string().contains("leave out"), "{error}");
        }
    };
    for query in
        ["daemon=/nowhere/daemon.sock", "policy=plan", "policy=fifo", "queue=3p", "weights=0:2", "policy=age&age=1s"]
    {
        refused(query);
    }
    let error = Sender::open(&calling(1, "daemon=/nowhere/daemon.sock").with_choice(|| OddOnly)).unwrap_err();
    assert!(error.to_string().contains("runs in this process"), "{error}");
    // This process runs it, whether there is a daemon or not.
    let error = Sender::open(&calling(free_port(), "daemon=auto").with_choice(|| OddOnly)).unwrap_err();
    assert!(matches!(error, Error::NobodyListens { .. }), "{error}");
}
