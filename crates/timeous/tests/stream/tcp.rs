//! Tests of streams over the kernel's TCP, with Timeous peers and with plain sockets.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use timeous::core::{DropReason, Duration, Fate};
use timeous::{
    Arrival, CloseReason, Error, Hints, Options, Receiver, SendError, Sender, Stats, Status, clock, open_both,
};

use crate::support::{
    PATIENCE, both_ends, collect, direct, fates, free_port, patience, patiently, plain_peer, stream, uri,
};

/// Payloads that tell themselves apart, with runs of zeros and without any.
fn payload(n: u32) -> Vec<u8> {
    let len = 4 + (n as usize * 37) % 1_000;
    let mut bytes: Vec<u8> = (0..len).map(|at| if n.is_multiple_of(3) { 0 } else { (at as u32 * n) as u8 }).collect();
    bytes[..4].copy_from_slice(&n.to_be_bytes());
    bytes
}

/// The statistics as soon as they are `so`.
fn stats_when(sender: &mut Sender, so: impl Fn(&Stats) -> bool) -> Stats {
    let end = clock::now() + PATIENCE;
    loop {
        let stats = sender.stats();
        if so(&stats) {
            return stats;
        }
        assert!(clock::now() < end, "{stats:?}");
        sender.wait(Some(clock::now() + Duration::from_millis(20)));
    }
}

fn wait_for_end(sender: &mut Sender) -> Status {
    let end = clock::now() + PATIENCE;
    while !matches!(sender.status(), Status::Closed(_)) {
        assert!(clock::now() < end, "{:?}", sender.stats());
        sender.wait(Some(end));
    }
    sender.status()
}

#[test]
fn every_adu_arrives_in_order_and_is_acked_in_both_directions() {
    for framing in ["records", "rfc4571"] {
        let query = format!("transport=tcp&framing={framing}&latency=20s&policy=deadline&slots=4096");
        let port = free_port();
        let ends = both_ends(direct(port), port, &query);
        let expected: Vec<_> = (0..2_000).map(payload).collect();
        let [near, far] = ends.map(|(mut sender, receiver)| {
            for payload in &expected {
                sender.send(payload, Hints::default()).unwrap();
            }
            (sender, receiver)
        });
        let mut senders = Vec::new();
        for (mut sender, mut receiver) in [near, far] {
            for payload in &expected {
                let Arrival::Data(data) = receiver.receive(patience()).unwrap() else { panic!("nothing came") };
                assert_eq!(&data.bytes, payload, "{framing}");
            }
            assert!(fates(&mut sender).values().all(|&fate| fate == Fate::Acked));
            let stats = stats_when(&mut sender, |stats| stats.transport == "tcp" && stats.pkt_sent_total == 2_000);
            assert_eq!(stats.late_choice == "retransmissions", framing == "records", "{stats:?}");
            senders.push((sender, receiver));
        }
    }
}

#[test]
fn a_sender_that_finishes_is_an_end_for_its_receiver() {
    let (mut sender, receiver) = stream("transport=tcp&latency=5s");
    let received = collect(receiver);
    sender.send(b"last words", Hints::default()).unwrap();
    assert_eq!(sender.finish().unwrap().pkt_acked_total, 1);
    assert_eq!(received.join().unwrap(), [b"last words"]);
}

#[test]
fn an_end_that_is_dropped_closes_the_stream_for_the_other() {
    let port = free_port();
    let [(mut sender, near), (far, receiver)] = both_ends(direct(port), port, "transport=tcp");
    drop((far, receiver));
    assert_eq!(wait_for_end(&mut sender), Status::Closed(CloseReason::Peer));
    assert_eq!(sender.send(b"x", Hints::default()), Err(SendError::Closed(CloseReason::Peer)));
    drop(near);
}

#[test]
fn where_nobody_listens_the_call_is_refused() {
    let called = Sender::open(&uri(&format!("timeous://127.0.0.1:{}?transport=tcp&timeout=30s", free_port())));
    let refused = called.unwrap_err();
    assert!(matches!(refused, Error::NobodyListens { .. }), "{refused}");
    assert!(refused.to_string().contains("nobody listens"), "{refused}");
}

#[test]
fn a_peer_that_resets_ends_the_stream_with_a_reason_and_every_adu_has_its_fate() {
    let (mut sender, peer) = plain_peer("latency=20s&policy=deadline&slots=64");
    let mut queued = 0;
    while queued < 60 && sender.send(&[7; 1_000], Hints::default()).is_ok() {
        queued += 1;
    }
    // Closing with unread data makes the kernel send a reset; that of a listener which is busy comes before any acknowledgement.
    while peer.peek(&mut [0; 20_000]).unwrap() < 20_000 {}
    drop(peer);
    let Status::Closed(CloseReason::Reset(reason)) = wait_for_end(&mut sender) else { panic!("{:?}", sender.status()) };
    assert!(reason.code.to_string().contains("no such connection"), "{}", reason.code);
    assert_eq!(fates(&mut sender).len() as u64, queued);
}

#[test]
fn a_peer_that_never_reads_costs_no_memory_and_is_given_up() {
    let (mut sender, peer) = plain_peer("latency=100ms&policy=deadline&slots=64&timeout=1500ms");
    let began = clock::now();
    let (mut stalled, mut given_up) = (false, 0);
    while sender.status() == Status::Open && clock::now() < began + PATIENCE {
        while sender.send(&[7; 1_000], Hints::default()).is_ok() {}
        while let Some(delivery) = sender.poll_delivery() {
            given_up += u64::from(matches!(delivery.fate, Fate::Dropped(DropReason::Expired | DropReason::TooLate)));
        }
        let stats = sender.stats();
        stalled |= stats.peer_stalled;
        assert!(stats.pkt_snd_buf <= 64);
        sender.wait(Some(clock::now() + Duration::from_millis(20)));
    }
    assert_eq!(sender.status(), Status::Closed(CloseReason::Timeout));
    assert!(stalled, "it was told that the peer does not read");
    assert!(given_up > 100, "what has expired makes room: {given_up}");
    drop(peer);
}

#[test]
fn a_peer_whose_window_shrinks_and_opens_again_gets_what_is_fresh() {
    let (mut sender, mut peer) = plain_peer("latency=300ms&policy=deadline&slots=256&timeout=20s");
    // It reads nothing until its window has closed, and then everything.
    let end = clock::now() + PATIENCE;
    while !sender.stats().peer_stalled {
        assert!(clock::now() < end, "{:?}", sender.stats());
        while sender.send(&[7; 1_000], Hints::default()).is_ok() {}
        while sender.poll_delivery().is_some() {}
        sender.wait(Some(clock::now() + Duration::from_millis(20)));
    }
    let reading = thread::spawn(move || {
        let mut all = Vec::new();
        let _ = peer.read_to_end(&mut all);
        all.len()
    });
    // The kernel probes a closed window less and less often.
    stats_when(&mut sender, |stats| !stats.peer_stalled);
    while sender.poll_delivery().is_some() {}
    let fresh = sender.send(b"fresh", Hints::default()).unwrap();
    let fate = loop {
        match sender.poll_delivery() {
            Some(delivery) if delivery.seq == fresh => break delivery.fate,
            Some(_) => {}
            None => assert!(sender.wait(Some(end)) || clock::now() < end),
        }
    };
    assert_eq!(fate, Fate::Acked);
    sender.finish().unwrap();
    assert!(reading.join().unwrap() > 64_000);
}

#[test]
fn noise_from_a_stranger_is_counted_and_delivers_nothing() {
    let port = free_port();
    let receiver =
        thread::spawn(move || Receiver::open(&uri(&format!("timeous://127.0.0.1:{port}?mode=listener&transport=tcp"))));
    let end = clock::now() + PATIENCE;
    let mut stranger = loop {
        match TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))) {
            Ok(stream) => break stream,
            Err(_) => assert!(clock::now() < end),
        }
    };
    let mut receiver = receiver.join().unwrap().unwrap();
    let noise: Vec<u8> = (0..1_000_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    stranger.write_all(&noise).unwrap();
    drop(stranger);
    assert_eq!(receiver.receive(patience()).unwrap(), Arrival::End);
    assert_eq!(receiver.stats().pkt_recv_total, 0);
}

#[test]
fn thirty_lines_of_python_read_every_record() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/receive_records.py");
    let lines = std::fs::read_to_string(script).unwrap().lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 35, "{lines} lines");
    let port = free_port();
    let python = Command::new("python3").args([script, &port.to_string()]).stdout(Stdio::piped()).spawn();
    let Ok(mut python) = python else {
        assert_ne!(std::env::var("TIMEOUS_REQUIRE_ALL").as_deref(), Ok("1"), "python3 is needed");
        return eprintln!("SKIPPED thirty_lines_of_python_read_every_record: needs python3");
    };
    let mut output = python.stdout.take().unwrap();
    let reading = thread::spawn(move || {
        let mut lines = String::new();
        output.read_to_string(&mut lines).unwrap();
        lines
    });
    let to = uri(&format!("timeous://127.0.0.1:{port}?transport=tcp&latency=20s&policy=deadline&slots=4096"));
    let mut sender = patiently(|| Sender::open(&to));
    for n in 0..2_000 {
        sender.send(&payload(n), Hints::default()).unwrap();
    }
    sender.finish().unwrap();
    assert!(python.wait().unwrap().success());
    let got = reading.join().unwrap();
    let hex = |n| payload(n).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let expected: Vec<_> = (0..2_000).map(hex).collect();
    assert!(got.lines().eq(expected.iter().map(String::as_str)), "{} lines", got.lines().count());
}

#[test]
fn without_framing_each_adu_lies_in_the_byte_stream_whole_or_not_at_all() {
    let (mut sender, mut peer) = plain_peer("framing=none&latency=10s&policy=deadline&slots=64");
    let most = Options::MAX_UNFRAMED;
    let refused = sender.send(&vec![0; most + 1], Hints::default());
    assert_eq!(refused, Err(SendError::TooLarge { len: most + 1, max: most }));
    // The peer does not read, so that the kernel's queue fills up within a large ADU, while those behind become stale.
    let mut sent = Vec::new();
    for n in 1..=24u8 {
        let len = if n.is_multiple_of(3) { 700_000 } else { 1_000 };
        let soon = Hints { deadline: Some(clock::now() + Duration::from_millis(300)), ..Hints::default() };
        sender.send(&vec![n; len], if n > 3 { soon } else { Hints::default() }).unwrap();
        sent.push((n, len));
    }
    let end = clock::now() + PATIENCE;
    let is_stale = |sender: &mut Sender| sender.poll_delivery().is_some_and(|one| matches!(one.fate, Fate::Dropped(_)));
    while !is_stale(&mut sender) {
        assert!(clock::now() < end, "{:?}", sender.stats());
        sender.wait(Some(clock::now() + Duration::from_millis(20)));
    }
    let read = thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).map(|_| all)
    });
    for (n, len) in [(25, 700_000), (26, 10)] {
        sender.send(&vec![n; len], Hints::default()).unwrap();
        sent.push((n, len));
    }
    sender.finish().unwrap();
    let all = read.join().unwrap().unwrap();
    let pieces: Vec<(u8, usize)> = all.chunk_by(|a, b| a == b).map(|piece| (piece[0], piece.len())).collect();
    assert!(pieces.iter().all(|piece| sent.contains(piece)), "{pieces:?}");
    assert!(pieces.is_sorted() && pieces.len() < sent.len(), "{pieces:?}");
    assert!([1, 2, 3, 25, 26].iter().all(|n| pieces.iter().any(|piece| piece.0 == *n)), "{pieces:?}");
}

#[test]
fn without_framing_a_plain_peer_is_heard_as_it_speaks() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let called = uri(&format!("timeous://127.0.0.1:{port}?transport=tcp&framing=none"));
    let (_sender, mut receiver) = open_both(&called).unwrap();
    let mut peer = listener.accept().unwrap().0;
    peer.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut heard = Vec::new();
    while heard.len() < 18 {
        match receiver.receive(patience()) {
            Ok(Arrival::Data(data)) => heard.extend(data.bytes),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(heard, b"GET / HTTP/1.1\r\n\r\n");
}
