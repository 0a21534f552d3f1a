//! Streams run by the daemon: delivery, end, and a stop of the daemon.

use std::process::Command;
use std::thread::{self, JoinHandle};

use timeous::core::Fate;
use timeous::{
    Arrival, CloseReason, Culprit, Error, Hints, PolicyName, Receiver, SendError, Sender, Status, Uri, Zone, clock,
};

use crate::support::{PATIENCE, TestDaemon, port};

pub(crate) fn uri(text: &str) -> Uri {
    text.parse().unwrap()
}

/// Receives all ADUs up to the end of the stream.
pub(crate) fn receive(uri: Uri) -> JoinHandle<Result<Vec<Vec<u8>>, Error>> {
    thread::spawn(move || {
        let mut receiver = Receiver::open(&uri)?;
        let mut received = Vec::new();
        loop {
            match receiver.receive(Some(clock::now() + PATIENCE))? {
                Arrival::Data(data) => received.push(data.bytes),
                Arrival::End => return Ok(received),
                Arrival::Nothing => panic!("nothing within {PATIENCE:?}"),
            }
        }
    })
}

/// Calls a receiver that may not be listening yet.
pub(crate) fn call(uri: &Uri) -> Sender {
    let end = clock::now() + PATIENCE;
    loop {
        match Sender::open(uri) {
            Err(Error::NobodyListens { .. }) if clock::now() < end => thread::yield_now(),
            opened => return opened.unwrap(),
        }
    }
}

/// Sends 50 ADUs and ends the stream; checks that each has a fate, and that the acknowledged ones arrived.
pub(crate) fn send_and_compare(sender: &Uri, receiver: Uri) {
    let received = receive(receiver);
    let mut sender = call(sender);
    for n in 0..50u8 {
        sender.send(&[n; 700], Hints::default()).unwrap();
    }
    let mut acked = 0;
    while sender.pending() > 0 {
        sender.wait(Some(clock::now() + PATIENCE));
        while let Some(delivery) = sender.poll_delivery() {
            acked += usize::from(delivery.fate == Fate::Acked);
        }
    }
    let stats = sender.finish().unwrap();
    let received = received.join().unwrap().unwrap();
    assert_eq!((acked, received.len()), (50, 50));
    assert_eq!(stats.pkt_acked_total, 50);
    assert!((0..50u8).zip(&received).all(|(n, bytes)| *bytes == [n; 700]));
}

/// Free port, as the port of a listener cannot be queried.
pub(crate) fn free() -> (std::net::IpAddr, u16) {
    let address = port().local_addr().unwrap();
    (address.ip(), address.port())
}

#[test]
fn both_ends_either_end_or_none_by_the_daemon() {
    let daemon = TestDaemon::start();
    let by_daemon = format!("&daemon={}", daemon.socket().display());
    for (sending, receiving) in [(&*by_daemon, &*by_daemon), (&by_daemon, ""), ("", &by_daemon)] {
        let (ip, port) = free();
        let sender = uri(&format!("timeous://{ip}:{port}?latency=20s{sending}"));
        let receiver = uri(&format!("timeous://{ip}:{port}?mode=listener{receiving}"));
        send_and_compare(&sender, receiver);
    }
}

#[test]
fn the_daemon_runs_every_policy_with_its_settings() {
    let daemon = TestDaemon::start();
    let dbat = "dbat&marked=layer:1&overfull=excess&mindelay=1s&maxth=64k";
    for policy in PolicyName::ALL.map(PolicyName::as_str).into_iter().chain([dbat]) {
        let (ip, port) = free();
        let query = format!("latency=20s&policy={policy}&daemon={}", daemon.socket().display());
        send_and_compare(
            &uri(&format!("timeous://{ip}:{port}?{query}")),
            uri(&format!("timeous://{ip}:{port}?mode=listener")),
        );
    }
}

#[test]
fn a_stream_ends_with_its_daemon_and_says_so() {
    let mut daemon = TestDaemon::start();
    let (ip, port) = free();
    let received = receive(uri(&format!("timeous://{ip}:{port}?mode=listener&daemon={}", daemon.socket().display())));
    let query = format!("latency=20s&daemon={}", daemon.socket().display());
    let mut sender = call(&uri(&format!("timeous://{ip}:{port}?{query}")));
    sender.send(b"before", Hints::default()).unwrap();
    let end = clock::now() + PATIENCE;
    while sender.pending() > 0 {
        sender.wait(Some(end));
        while sender.poll_delivery().is_some() {}
    }
    daemon.stop();
    while !matches!(sender.status(), Status::Closed(_)) {
        assert!(clock::now() < end, "{:?}", sender.status());
        sender.wait(Some(end));
    }
    assert!(sender.send(b"after", Hints::default()).is_err());
    // A daemon that is stopped closes its streams in order as far as possible; one that is killed cannot.
    let error = match sender.status() {
        Status::Closed(reason @ CloseReason::Abandoned) => Error::Closed(reason),
        other => panic!("{other:?}"),
    };
    assert_eq!(error.culprit(), Culprit::Environment);
    assert!(error.to_string().contains("open it again"), "{error}");
    match received.join().unwrap() {
        Ok(received) => assert_eq!(received, [b"before".to_vec()]),
        // The daemon may be gone before the stream was read.
        Err(error) => assert!(matches!(error, Error::Closed(CloseReason::Abandoned) | Error::Daemon(_)), "{error}"),
    }
}

#[test]
fn a_daemon_that_was_asked_for_by_name_is_not_done_without() {
    let (ip, port) = free();
    let error = Sender::open(&uri(&format!("timeous://{ip}:{port}?daemon=/nonexistent/daemon.sock"))).unwrap_err();
    assert!(matches!(error, Error::NoDaemon(_)), "{error}");
    assert_eq!(error.culprit(), Culprit::Environment);
}

/// First frames of the clip, as a byte stream.
pub(crate) fn video() -> Vec<u8> {
    let clip = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/clip.h264")).unwrap();
    let start_codes = clip.windows(3).enumerate().filter(|(_, bytes)| *bytes == [0, 0, 1]).map(|(at, _)| at);
    let end = start_codes.skip(20).find(|&at| clip[at - 1] == 0).unwrap();
    clip[..end - 1].to_vec()
}

/// With `daemon=auto` the tool uses the daemon named in its environment, and works without one if it does not run.
#[test]
fn auto_takes_the_daemon_that_is_there() {
    let mut daemon = TestDaemon::start();
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("clip.h264");
    std::fs::write(&source, video()).unwrap();
    for there in [true, false] {
        if !there {
            daemon.stop();
        }
        let (ip, port) = free();
        let received = receive(uri(&format!("timeous://{ip}:{port}?mode=listener")));
        let mut sending = Command::new(env!("CARGO_BIN_EXE_timeous"));
        sending.env("TIMEOUS_SOCKET", daemon.socket()).arg("send").arg(&source);
        let sent = sending.arg(format!("timeous://{ip}:{port}?latency=5s&daemon=auto")).output().unwrap();
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        assert!(!received.join().unwrap().unwrap().is_empty());
        assert_eq!(daemon.knows(ip), there);
    }
}

#[test]
fn a_zone_of_the_daemon_serves_all_its_streams_without_a_copy() {
    let daemon = TestDaemon::start();
    let by_daemon = format!("latency=20s&repair=off&daemon={}", daemon.socket().display());
    let (receivers, mut senders): (Vec<_>, Vec<_>) = (0..3)
        .map(|_| {
            let (ip, port) = free();
            let receiver = receive(uri(&format!("timeous://{ip}:{port}?mode=listener")));
            (receiver, call(&uri(&format!("timeous://{ip}:{port}?{by_daemon}"))))
        })
        .unzip();
    // The host does not matter.
    let place = uri(&format!("timeous://192.0.2.1?{by_daemon}"));
    let zone = place.zone(4_096, 50).unwrap();
    for n in 0..50 {
        let mut buffer = zone.buffer().unwrap();
        buffer.truncate(700);
        buffer.bytes_mut().fill(n);
        let buffer = buffer.freeze();
        for sender in &mut senders {
            sender.send_shared(&buffer, Hints::default()).unwrap();
        }
    }
    // Memory of this process is none of the daemon's.
    let own = Zone::new(4_096, 1).unwrap().buffer().unwrap().freeze().part(0..10).unwrap();
    let refused = senders[0].send_shared(&own, Hints::default()).unwrap_err();
    assert_eq!((refused.culprit(), refused), (Culprit::Caller, SendError::ForeignZone));
    let end = clock::now() + PATIENCE;
    for sender in &mut senders {
        while sender.pending() > 0 {
            assert!(clock::now() < end, "{} without a fate", sender.pending());
            sender.wait(Some(end));
            while let Some(delivery) = sender.poll_delivery() {
                assert_eq!(delivery.fate, Fate::Acked);
            }
        }
        assert_eq!(sender.ring().copied_bytes(), 0);
    }
    assert_eq!(zone.in_use(), 0);
    for sender in senders {
        sender.finish().unwrap();
    }
    for receiver in receivers {
        let received = receiver.join().unwrap().unwrap();
        assert!(received.iter().map(|bytes| bytes[0]).eq(0..50));
    }
    // The daemon's limits.
    let error = place.zone(4_096, 1 << 17).unwrap_err();
    assert!(matches!(error, Error::Daemon(_)) && error.culprit() == Culprit::Environment, "{error}");
    let error = place.zone(100, 1).unwrap_err();
    assert!(matches!(error, Error::Daemon(_)) && error.culprit() == Culprit::Caller, "{error}");
}

#[test]
fn a_zone_ends_with_its_daemon() {
    let mut daemon = TestDaemon::start();
    let place = uri(&format!("timeous://192.0.2.1?daemon={}", daemon.socket().display()));
    let zone = place.zone(4_096, 1).unwrap();
    daemon.stop();
    assert!(matches!(place.zone(4_096, 1), Err(Error::NoDaemon(_))));
    // Its memory stays, for streams of this process.
    let buffer = zone.buffer().unwrap().freeze().part(0..10).unwrap();
    let (ip, port) = free();
    let receiver = receive(uri(&format!("timeous://{ip}:{port}?mode=listener")));
    let mut sender = call(&uri(&format!("timeous://{ip}:{port}?latency=20s")));
    sender.send_shared(&buffer, Hints::default()).unwrap();
    sender.finish().unwrap();
    assert_eq!(receiver.join().unwrap().unwrap().len(), 1);
}
