//! Tests of many callers at one port: those accepted, and the answers to the others.

use std::collections::BTreeMap;
use std::net::{TcpStream, UdpSocket};
use std::thread;

use timeous::core::Duration;
use timeous::{
    Arrival, Culprit, DropReason, Error, Fate, Hints, Listener, ReadyList, Receiver, Sender, Status, clock, open_both,
};

use crate::support::{OddOnly, PATIENCE, collect, fates, free_port, patience, uri};

const TRANSPORTS: [&str; 3] = ["dccp", "tcp", "auto"];
const DATA: Hints = Hints {
    deadline: None,
    priority: timeous::core::Priority::NORMAL,
    substream: timeous::core::SubStream(0),
    frame: timeous::core::FrameId(0),
    references: timeous::core::References::NONE,
};

fn listener(port: u16, transport: &str) -> Listener {
    Listener::open(&uri(&format!("timeous://127.0.0.1:{port}?mode=listener&latency=9s&transport={transport}"))).unwrap()
}

fn call(port: u16, transport: &str) -> Result<Sender, Error> {
    Sender::open(&uri(&format!("timeous://127.0.0.1:{port}?latency=9s&transport={transport}")))
}

/// Waits until the stream has ended; returns the reason.
fn end_of(sender: Sender) -> Error {
    let end = clock::now() + PATIENCE;
    while !matches!(sender.status(), Status::Closed(_)) {
        assert!(clock::now() < end, "it goes on");
        sender.wait(Some(end));
    }
    sender.finish().unwrap_err()
}

/// Error that a refused caller gets, when opening or at the end of its stream.
fn refusal(called: Result<Sender, Error>) -> Error {
    called.map_or_else(|error| error, end_of)
}

#[test]
fn one_port_takes_any_number_of_callers_each_as_a_stream_of_its_own() {
    for transport in TRANSPORTS {
        let port = free_port();
        let mut listener = listener(port, transport);
        assert_eq!(listener.local_addr().port(), port);
        assert!(listener.accept(Some(clock::now())).unwrap().is_none());
        let callers: Vec<_> = (0..5u8)
            .map(|n| {
                thread::spawn(move || {
                    let mut sender = call(port, transport).unwrap();
                    assert_eq!(sender.peer().unwrap(), ([127, 0, 0, 1], port).into());
                    sender.send(&[n], DATA).unwrap();
                    sender.send(&[n, n], DATA).unwrap();
                    sender.finish().unwrap();
                })
            })
            .collect();
        let mut heard: Vec<_> = (0..5)
            .map(|_| {
                let caller = listener.accept(patience()).unwrap().expect("a caller");
                let peer = caller.peer();
                let (sender, receiver) = caller.accept();
                assert_eq!((sender.peer(), receiver.peer()), (Some(peer), Some(peer)));
                assert!(peer.ip().is_loopback() && peer.port() != port);
                (sender, collect(receiver))
            })
            .map(|(_sender, received)| received.join().unwrap())
            .collect();
        heard.sort();
        let said: Vec<_> = (0..5u8).map(|n| vec![vec![n], vec![n, n]]).collect();
        assert_eq!(heard, said, "{transport}");
        callers.into_iter().for_each(|caller| caller.join().unwrap());
    }
}

#[test]
fn a_caller_that_says_nothing_holds_up_nobody() {
    let port = free_port();
    let mut listener = listener(port, "auto");
    // One connects and says nothing; one begins a handshake, of a sort, and never goes on.
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let stuck = UdpSocket::bind("127.0.0.1:0").unwrap();
    stuck.send_to(&[0; 20], ("127.0.0.1", port)).unwrap();
    let _sender = call(port, "dccp").unwrap();
    let _caller =
        listener.accept(Some(clock::now() + Duration::from_millis(800))).unwrap().expect("it waits for others");
}

#[test]
fn a_receiver_takes_one_caller_and_tells_the_others_that_it_is_busy() {
    for transport in TRANSPORTS {
        let port = free_port();
        let at = uri(&format!("timeous://127.0.0.1:{port}?mode=listener&latency=9s&transport={transport}"));
        let receiver = thread::spawn(move || Receiver::open(&at).unwrap());
        let mut sender = loop {
            match call(port, transport) {
                Ok(sender) => break sender,
                // It does not listen yet.
                Err(error) => assert!(!matches!(error, Error::Busy { .. }), "{error}"),
            }
        };
        let mut receiver = receiver.join().unwrap();
        for _ in 0..3 {
            let error = refusal(call(port, transport));
            assert!(matches!(error, Error::Busy { remote } if remote.port() == port), "{transport}: {error}");
            assert_eq!(error.culprit(), Culprit::Peer);
            assert!(error.to_string().contains("serving another caller"), "{error}");
        }
        sender.send(b"on it goes", DATA).unwrap();
        let Arrival::Data(adu) = receiver.receive(patience()).unwrap() else { panic!("no data") };
        assert_eq!((adu.bytes.as_slice(), fates(&mut sender).len()), (&b"on it goes"[..], 1));
    }
}

#[test]
fn of_callers_at_one_instant_one_is_served_and_the_others_are_told_so() {
    let port = free_port();
    let mut listener = listener(port, "dccp");
    listener.set_room(Some(1));
    let callers: Vec<_> = (0..10).map(|_| thread::spawn(move || call(port, "dccp"))).collect();
    let (_sender, mut receiver) = listener.accept(patience()).unwrap().expect("a caller").accept();
    let mut served = Vec::new();
    for caller in callers {
        match caller.join().unwrap() {
            Err(error) => assert!(matches!(error, Error::Busy { .. }), "{error}"),
            Ok(sender) => served.push(sender),
        }
    }
    let mut open = 0;
    for mut sender in served {
        if sender.send(b"mine", DATA).is_err() {
            assert!(matches!(end_of(sender), Error::Busy { .. }));
            continue;
        }
        match fates(&mut sender).remove(&0) {
            Some(timeous::core::Fate::Acked) => open += 1,
            _ => assert!(matches!(end_of(sender), Error::Busy { .. })),
        }
    }
    assert_eq!(open, 1);
    assert!(matches!(receiver.receive(patience()).unwrap(), Arrival::Data(adu) if adu.bytes == b"mine"));
    // And there is room again when it is said.
    listener.set_room(Some(1));
    let _sender = call(port, "dccp").unwrap();
    assert!(listener.accept(patience()).unwrap().is_some());
}

#[test]
fn who_is_refused_or_never_accepted_is_told_that_the_listener_is_busy() {
    for transport in TRANSPORTS {
        let port = free_port();
        let mut listener = listener(port, transport);
        let refused = call(port, transport).unwrap();
        listener.accept(patience()).unwrap().expect("a caller").refuse();
        let error = end_of(refused);
        assert!(matches!(error, Error::Busy { .. }), "{transport}: {error}");
        let dropped = call(port, transport).unwrap();
        drop(listener.accept(patience()).unwrap().expect("a caller"));
        let error = end_of(dropped);
        assert!(matches!(error, Error::Busy { .. }), "{transport}: {error}");
        listener.waker().clear();
        let forgotten = call(port, transport).unwrap();
        // One whose handshake is complete at the listener, too.
        assert!(listener.waker().is_rung(Some(PATIENCE)));
        drop(listener);
        let error = end_of(forgotten);
        assert!(matches!(error, Error::Busy { .. }), "{transport}: {error}");
    }
}

#[test]
fn a_listener_says_why_it_cannot_be_opened() {
    let port = free_port();
    let _taken = UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let error = Listener::open(&uri(&format!("timeous://127.0.0.1:{port}?mode=listener"))).unwrap_err();
    assert_eq!(error.culprit(), Culprit::Environment);
    let error = Listener::open(&uri("timeous://127.0.0.1:7000")).unwrap_err();
    assert_eq!(error.culprit(), Culprit::Caller);
    assert!(error.to_string().contains("mode=listener"), "{error}");
    let error = Listener::open(&uri("timeous://:7000?daemon=/nowhere/daemon.sock")).unwrap_err();
    assert!(error.to_string().contains("leave out daemon"), "{error}");
}

/// A server on one thread: a list names the listener and the streams that have something to do.
#[test]
fn one_list_serves_a_listener_and_its_streams_each_with_an_own_choice_and_answers_in_place() {
    const LISTENER: u64 = 0;
    const CALLERS: u8 = 4;
    let port = free_port();
    let at = uri(&format!("timeous://127.0.0.1:{port}?mode=listener&latency=9s"));
    let mut listener = Listener::open(&at.with_choice(|| OddOnly)).unwrap();
    assert!(listener.options().own_choice.is_some());
    let ready = ReadyList::new().unwrap();
    assert!(ready.add(listener.waker(), LISTENER));
    let callers: Vec<_> = (0..CALLERS)
        .map(|n| {
            thread::spawn(move || {
                let (mut sender, mut receiver) =
                    open_both(&uri(&format!("timeous://127.0.0.1:{port}?latency=9s"))).unwrap();
                sender.send_with(1, DATA, |buffer| buffer.fill(n)).unwrap();
                let Arrival::Data(answer) = receiver.receive(patience()).unwrap() else { panic!("no answer") };
                assert_eq!(answer.bytes, [n, 1]);
                sender.finish().unwrap();
            })
        })
        .collect();
    let (mut streams, mut fates, end) = (BTreeMap::new(), Vec::new(), clock::now() + PATIENCE);
    let mut ended = 0;
    while ended < CALLERS {
        assert!(ready.wait(Some(end)), "{ended} streams have ended");
        while let Some(key) = ready.poll() {
            if key == LISTENER {
                listener.waker().clear();
                while let Some(caller) = listener.poll_accept().unwrap() {
                    let (sender, receiver) = caller.accept();
                    let key = 1 + 2 * streams.len() as u64;
                    assert!(ready.add(receiver.waker(), key) && ready.add(sender.waker(), key + 1));
                    streams.insert(key, (sender, receiver));
                }
                continue;
            }
            let is_receiver = key % 2 == 1;
            let (sender, receiver) = streams.get_mut(&(if is_receiver { key } else { key - 1 })).unwrap();
            if !is_receiver {
                sender.waker().clear();
                fates.extend(std::iter::from_fn(|| sender.poll_delivery().map(|delivery| delivery.fate)));
                continue;
            }
            receiver.waker().clear();
            while let Some(arrival) = receiver.poll_receive().unwrap() {
                let Arrival::Data(data) = arrival else {
                    ended += 1;
                    break;
                };
                // The first is dropped before the second leaves.
                for answer in [0, 1] {
                    sender.send_with(2, DATA, |buffer| buffer.copy_from_slice(&[data.bytes[0], answer])).unwrap();
                }
            }
        }
    }
    callers.into_iter().for_each(|caller| caller.join().unwrap());
    for (sender, _) in streams.values_mut() {
        fates.extend(std::iter::from_fn(|| sender.poll_delivery().map(|delivery| delivery.fate)));
    }
    let dropped = fates.iter().filter(|&&fate| fate == Fate::Dropped(DropReason::Policy)).count();
    assert_eq!((fates.len(), dropped), (2 * usize::from(CALLERS), usize::from(CALLERS)), "{fates:?}");
}
