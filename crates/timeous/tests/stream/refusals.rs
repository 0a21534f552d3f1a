//! Tests of refused ADUs, URIs and callers, without effect on others.

use timeous::core::{Duration, Fate};
use timeous::{Error, Hints, Options, Receiver, SendError, Sender, clock};
use timeous_net::LinkConfig;

use crate::support::{PATIENCE, TestLink, both_ends, collect, fates, free_port, patience, stream, uri};

#[test]
fn an_adu_that_is_too_large_is_refused_and_one_that_fits_into_a_packet_arrives() {
    let (mut sender, receiver) = stream("latency=5s&policy=deadline&mtu=900");
    let received = collect(receiver);
    let max = sender.max_payload();
    assert!((800..900).contains(&max), "{max}");
    let most = Options::MAX_ADU;
    let refused = sender.send(&vec![1; most + 1], Hints::default());
    assert_eq!(refused, Err(SendError::TooLarge { len: most + 1, max: most }));
    let words = refused.unwrap_err().to_string();
    assert!(words.contains(&most.to_string()), "{words}");
    sender.send(&vec![2; max], Hints::default()).unwrap();
    sender.send(&[], Hints::default()).unwrap();
    let fates = fates(&mut sender);
    assert!(fates.len() == 2 && fates.values().all(|&fate| fate == Fate::Acked), "{fates:?}");
    sender.finish().unwrap();
    let lens: Vec<usize> = received.join().unwrap().iter().map(Vec::len).collect();
    assert_eq!(lens, [max, 0]);
}

#[test]
fn a_full_ring_refuses_and_has_room_again() {
    let port = free_port();
    let delay = LinkConfig { delay: Duration::from_millis(100), ..LinkConfig::default() };
    let link = TestLink::to(port, delay.clone(), delay);
    let [(mut sender, _near), (far, receiver)] = both_ends(link.near, port, "latency=20s&policy=deadline&slots=16");
    drop(far);
    let received = collect(receiver);
    // With a round trip of 200 ms the window is shut long before so many have left.
    let full = (0..1_000u32).find(|n| match sender.send(&n.to_be_bytes(), Hints::default()) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error, SendError::Full);
            true
        }
    });
    let taken = full.expect("a ring of 16 places is full some time");
    let end = clock::now() + PATIENCE;
    while sender.send(&taken.to_be_bytes(), Hints::default()) == Err(SendError::Full) {
        assert!(clock::now() < end, "there is no room again");
        sender.wait(Some(end));
    }
    let fates = fates(&mut sender);
    assert_eq!(fates.len() as u32, taken + 1, "nothing that was queued before is lost");
    assert!(fates.values().all(|&fate| fate == Fate::Acked), "{fates:?}");
    sender.finish().unwrap();
    assert_eq!(received.join().unwrap().len() as u32, taken + 1);
}

#[test]
fn opening_fails_in_words() {
    let port = free_port();
    let taken = std::net::UdpSocket::bind(("0.0.0.0", port)).unwrap();
    let error = Receiver::open(&uri(&format!("timeous://0.0.0.0:{port}?mode=listener"))).unwrap_err();
    assert!(matches!(error, Error::Engine(timeous_engine::EngineError::PortInUse(at)) if at.port() == port), "{error}");
    drop(taken);
    let silent = std::net::UdpSocket::bind(("127.0.0.1", port)).unwrap();
    let error = Sender::open(&uri(&format!("timeous://127.0.0.1:{port}?timeout=500ms"))).unwrap_err();
    assert!(matches!(error, Error::NoAnswer { remote, .. } if remote.port() == port), "{error}");
    drop(silent);
    let error = Sender::open(&uri("timeous://no-such-host.invalid:1")).unwrap_err();
    assert!(matches!(error, Error::UnknownHost { .. }), "{error}");
    assert!(patience() > Some(clock::now()));
}

#[test]
fn a_wrong_port_is_told_at_once_and_by_a_name_of_its_own() {
    for transport in ["dccp", "tcp", "auto"] {
        for host in ["127.0.0.1", "[::1]"] {
            let (port, began) = (free_port(), clock::now());
            let error = Sender::open(&uri(&format!("timeous://{host}:{port}?transport={transport}"))).unwrap_err();
            assert!(clock::now() - began < Duration::from_secs(2), "{:?}", clock::now() - began);
            assert!(matches!(error, Error::NobodyListens { remote } if remote.port() == port), "{transport}: {error}");
            assert!(error.to_string().contains("connection refused"), "{error}");
        }
    }
}

#[test]
fn another_service_is_refused() {
    let port = free_port();
    let listener = uri(&format!("timeous://127.0.0.1:{port}?mode=listener&service=GAME"));
    let listening = std::thread::spawn(move || Receiver::open(&listener).unwrap());
    let error = loop {
        match Sender::open(&uri(&format!("timeous://127.0.0.1:{port}?service=RTPV&timeout=5s"))) {
            // It does not listen yet.
            Err(Error::NobodyListens { .. }) => {}
            Err(error) => break error,
            Ok(_) => panic!("a stream of another service"),
        }
    };
    assert!(error.to_string().contains("reset by the peer"), "{error}");
    // A refused caller does not count: the listener keeps waiting for one of its own service.
    let sender = Sender::open(&uri(&format!("timeous://127.0.0.1:{port}?service=GAME"))).unwrap();
    listening.join().unwrap();
    drop(sender);
}
