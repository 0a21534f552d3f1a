//! Tests of the end of streams, at both ends.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::thread;

use timeous::core::{DropReason, Duration, Fate};
use timeous::{Arrival, CloseReason, Error, Hints, SealError, SendError, Status, clock, open_both};
use timeous_net::LinkConfig;

use crate::support::{
    PATIENCE, TestLink, both_ends, collect, direct, fates, free_port, patience, pause, plain_peer, stream, uri,
};

#[test]
fn a_sender_that_finishes_is_an_end_for_its_receiver() {
    let (mut sender, mut receiver) = stream("latency=5s&policy=deadline");
    sender.send(b"last words", Hints::default()).unwrap();
    let stats = sender.finish().unwrap();
    assert_eq!(stats.pkt_acked_total, 1);
    assert!(matches!(receiver.receive(patience()).unwrap(), Arrival::Data(data) if data.bytes == b"last words"));
    assert_eq!(receiver.receive(patience()).unwrap(), Arrival::End);
    assert_eq!(receiver.receive(patience()).unwrap(), Arrival::End, "an end does not go away");
    assert_eq!(receiver.stats().pkt_recv_total, 1);
}

/// Found by `timeous-demo camera`: with 75 ms each way the first frames had deadlines without the path, and a stream lost its first
/// second.
#[test]
fn the_round_trip_is_known_before_anything_is_sent() {
    let port = free_port();
    let delay = LinkConfig { delay: Duration::from_millis(40), ..LinkConfig::default() };
    let link = TestLink::to(port, delay.clone(), delay);
    // The listener shares what it knows of its path with other tests.
    let [(sender, _near), _far] = both_ends(link.near, port, "latency=5s");
    let stats = sender.stats();
    assert!(stats.ms_rtt_min >= 80.0 && stats.ms_rtt >= 80.0, "{stats:?}");
}

#[test]
fn an_end_that_is_dropped_closes_the_stream_for_the_other() {
    let port = free_port();
    let [(mut sender, near), (far, receiver)] = both_ends(direct(port), port, "latency=5s&policy=deadline");
    drop((far, receiver));
    let end = clock::now() + PATIENCE;
    while sender.status() == Status::Open {
        assert!(clock::now() < end);
        sender.wait(Some(end));
    }
    assert_eq!(sender.status(), Status::Closed(CloseReason::Peer));
    assert_eq!(sender.send(b"x", Hints::default()), Err(SendError::Closed(CloseReason::Peer)));
    assert_eq!(sender.finish().unwrap().pkt_sent_total, 0, "nothing was cut off");
    drop(near);
}

/// Found by a user: whoever finished second failed with the peer's end, though all had arrived.
#[test]
fn both_ends_may_finish_and_neither_fails() {
    for transport in ["dccp", "tcp"] {
        let port = free_port();
        let query = format!("transport={transport}&latency=20s&policy=deadline");
        let [(mut near, _near), (far, mut receiver)] = both_ends(direct(port), port, &query);
        for _ in 0..5 {
            near.send(b"all", Hints::default()).unwrap();
        }
        for _ in 0..5 {
            assert!(matches!(receiver.receive(patience()).unwrap(), Arrival::Data(_)));
        }
        far.finish().unwrap();
        let end = clock::now() + PATIENCE;
        while near.status() == Status::Open {
            assert!(clock::now() < end);
            near.wait(Some(end));
        }
        let stats = near.finish().unwrap();
        assert_eq!((stats.pkt_acked_total, stats.pkt_snd_loss_total), (5, 0), "{transport}");
    }
}

/// Found by a user: what the peer had acknowledged with its own end counted as lost.
#[test]
fn what_the_peer_has_read_before_it_closes_has_arrived() {
    for turn in 0..20 {
        let (mut sender, mut peer) = plain_peer("framing=none&latency=20s&policy=deadline");
        // The kernel of a peer that answers delays its acknowledgements.
        for _ in 0..8 {
            peer.write_all(b"more").unwrap();
            pause(Duration::from_millis(1));
            sender.send(&[7; 100], Hints::default()).unwrap();
            peer.read_exact(&mut [0; 100]).unwrap();
        }
        drop(peer);
        assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked), "turn {turn}: {:?}", sender.stats());
    }
}

/// Found by a user: a client of HTTP that closes its direction behind its request got nothing.
#[test]
fn a_byte_stream_goes_on_to_a_peer_that_has_closed_its_own_direction() {
    let half_closed = |framing: &str| {
        let port = free_port();
        let query = format!("transport=tcp&framing={framing}&latency=20s&policy=deadline");
        let listener = uri(&format!("timeous://127.0.0.1:{port}?mode=listener&{query}"));
        let near = thread::spawn(move || open_both(&listener).unwrap());
        let end = clock::now() + PATIENCE;
        let peer = loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(peer) => break peer,
                Err(_) if clock::now() < end => pause(Duration::from_millis(5)),
                Err(error) => panic!("{error}"),
            }
        };
        (&peer).write_all(b"request").unwrap();
        peer.shutdown(Shutdown::Write).unwrap();
        (near.join().unwrap(), peer)
    };
    let ((mut sender, mut receiver), mut peer) = half_closed("none");
    assert!(matches!(receiver.receive(patience()).unwrap(), Arrival::Data(data) if data.bytes == b"request"));
    assert_eq!(receiver.receive(patience()).unwrap(), Arrival::End);
    assert_eq!(sender.status(), Status::Open);
    for _ in 0..10 {
        sender.send(&[7; 1_000], Hints::default()).unwrap();
        pause(Duration::from_millis(2));
    }
    assert_eq!(sender.finish().unwrap().pkt_acked_total, 10);
    let mut read = Vec::new();
    peer.read_to_end(&mut read).unwrap();
    assert_eq!(read, [7; 10_000]);

    // One that has closed its whole socket is gone with the next data.
    let ((mut sender, mut receiver), peer) = half_closed("none");
    assert!(matches!(receiver.receive(patience()).unwrap(), Arrival::Data(_)));
    drop(peer);
    let end = clock::now() + PATIENCE;
    while sender.send(b"more", Hints::default()).is_ok() {
        assert!(clock::now() < end);
        pause(Duration::from_millis(2));
    }
    assert_eq!(sender.status(), Status::Closed(CloseReason::Peer));

    // With records it is the end of a Timeous peer.
    let ((sender, _receiver), _peer) = half_closed("records");
    let end = clock::now() + PATIENCE;
    while sender.status() == Status::Open {
        assert!(clock::now() < end);
        sender.wait(Some(end));
    }
    assert_eq!(sender.status(), Status::Closed(CloseReason::Peer));
}

/// Found by a user: the kernel of a receiver that takes encrypted streams only acknowledges what comes in the clear.
#[test]
fn nothing_has_arrived_at_a_peer_that_refuses_the_stream() {
    const UNEXPECTED_MESSAGE: [u8; 7] = [21, 3, 3, 0, 2, 2, 10];
    let (mut sender, mut peer) = plain_peer("latency=20s&policy=deadline&encryption=off");
    for _ in 0..20 {
        sender.send(&[7; 100], Hints::default()).unwrap();
    }
    peer.read_exact(&mut [0; 1_000]).unwrap();
    pause(Duration::from_millis(30));
    peer.write_all(&UNEXPECTED_MESSAGE).unwrap();
    assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Lost), "{:?}", sender.stats());
    assert!(matches!(sender.finish(), Err(Error::Sealing(SealError::EncryptionWanted))));
    // A peer that says nothing takes it.
    let (mut sender, _peer) = plain_peer("latency=20s&policy=deadline");
    let sent = clock::now();
    sender.send(&[7; 100], Hints::default()).unwrap();
    assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked));
    assert!(clock::now() - sent < PATIENCE / 2, "its fate is told in time");
}

#[test]
fn an_end_that_vanishes_is_missed_by_both_and_every_adu_has_its_fate() {
    let port = free_port();
    let delay = LinkConfig { delay: Duration::from_millis(20), ..LinkConfig::default() };
    let mut link = TestLink::to(port, delay.clone(), delay);
    let [(mut sender, near), (far, mut receiver)] = both_ends(link.near, port, "latency=20s&timeout=2s&slots=256");
    sender.send(b"before", Hints::default()).unwrap();
    assert!(matches!(receiver.receive(patience()).unwrap(), Arrival::Data(_)));
    fates(&mut sender);
    link.cut();
    for _ in 0..100 {
        sender.send(&[0; 500], Hints::default()).unwrap();
    }
    let fates = fates(&mut sender);
    assert_eq!(fates.len(), 100);
    for fate in fates.values() {
        assert!(matches!(fate, Fate::Lost | Fate::Dropped(DropReason::Closed)), "{fate:?}");
    }
    assert!(matches!(sender.finish(), Err(Error::Closed(CloseReason::Timeout))));
    // It has nothing to send: it must have asked for a sign of life by itself.
    assert!(matches!(receiver.receive(patience()), Err(Error::Closed(CloseReason::Timeout))));
    drop((near, far));
}

#[test]
fn streams_of_a_process_share_one_engine() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        // A task may end while one looks.
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
        names.filter(|name| name.starts_with("timeous-engin")).count()
    };
    let (mut one, one_receiver) = stream("latency=5s&policy=deadline");
    let (mut other, other_receiver) = stream("latency=5s&policy=frames");
    // The engine of a test before may still be saying goodbye.
    let end = clock::now() + PATIENCE;
    while threads() != 1 {
        assert!(clock::now() < end, "{} engines", threads());
        one.wait(Some(clock::now() + Duration::from_millis(10)));
    }
    let received = [one_receiver, other_receiver].map(collect);
    for n in 0..100u8 {
        one.send(&[1, n], Hints::default()).unwrap();
        other.send(&[2, n], Hints::default()).unwrap();
    }
    for sender in [&mut one, &mut other] {
        assert!(fates(sender).values().all(|&fate| fate == Fate::Acked));
    }
    one.finish().unwrap();
    other.finish().unwrap();
    for (received, stream) in received.into_iter().zip([1, 2]) {
        let received = received.join().unwrap();
        assert!(received.iter().zip(0..).all(|(bytes, n)| bytes == &[stream, n]) && received.len() == 100);
    }
}
