//! Streams whose application is another process: data both ways, and the end of either side.

use std::collections::BTreeSet;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use timeous_core::{AduMeta, AduSeq, Duration, Fate};
use timeous_engine::{
    Carrier, CloseReason, Engine, EnqueueError, Gone, Offer, PacketZone, Received, Served, SharedZone, Status, Stream,
    StreamConfig, Waker, ZoneKey, clock,
};

const PATIENCE: Duration = Duration::from_secs(30);

fn config() -> StreamConfig {
    StreamConfig { slots: 64, ..StreamConfig::new(Carrier::Udp) }
}

/// Serves the stream until it ends, and returns the reason.
fn serve(served: Served) -> Gone {
    serve_with(served, |_| None)
}

/// As [`serve`], with the zones that the application may use.
fn serve_with(mut served: Served, zone: impl Fn(ZoneKey) -> Option<SharedZone>) -> Gone {
    loop {
        if let Err(gone) = served.pump_with(&zone) {
            return gone;
        }
        let writable = if served.is_blocked() { PollFlags::OUT } else { PollFlags::empty() };
        let (socket, bell) = (served.socket(), served.bell());
        let mut fds = [PollFd::new(&socket, PollFlags::IN | writable), PollFd::new(&bell, PollFlags::IN)];
        let limit = Timespec { tv_sec: 30, tv_nsec: 0 };
        assert_ne!(poll(&mut fds, Some(&limit)).unwrap(), 0, "nothing happens any more");
    }
}

struct Scene {
    engine: Engine,
    here: Stream,
    served: Served,
    elsewhere: Stream,
}

/// Opens a stream between this process and "another" one, which is another thread in this test.
fn scene() -> Scene {
    let engine = Engine::start().unwrap();
    let mut listener = engine.listen("127.0.0.1:0".parse().unwrap(), config()).unwrap();
    let Offer { served, ring, socket, .. } = engine.connect_for(listener.local_addr(), config()).unwrap();
    let elsewhere = Stream::remote(ring, socket).unwrap();
    let here = listener.accept(Some(clock::now() + PATIENCE)).expect("a caller");
    Scene { engine, here, served, elsewhere }
}

#[track_caller]
fn next(stream: &mut Stream) -> Received {
    let end = clock::now() + PATIENCE;
    loop {
        if let Some(received) = stream.receiving().poll_received() {
            return received;
        }
        assert!(clock::now() < end, "nothing came; the stream is {:?}", stream.status());
        stream.receiving().wait(Some(end));
    }
}

#[track_caller]
fn closed(stream: &Stream, waits: impl Fn()) -> CloseReason {
    let end = clock::now() + PATIENCE;
    loop {
        if let Status::Closed(reason) = stream.status() {
            return reason;
        }
        assert!(clock::now() < end, "the stream is {:?}", stream.status());
        waits();
    }
}

fn send(stream: &mut Stream, numbers: std::ops::Range<u64>) {
    let end = clock::now() + PATIENCE;
    for n in numbers {
        let meta = AduMeta { seq: AduSeq(n), ..AduMeta::default() };
        while stream.sending().enqueue(&meta, &n.to_le_bytes()).is_err() {
            assert!(clock::now() < end, "no room; the stream is {:?}", stream.status());
            stream.sending().wait(Some(clock::now() + Duration::from_millis(50)));
        }
    }
}

#[test]
fn a_stream_of_another_process_is_a_stream_like_any_other() {
    const MANY: u64 = 1_000;
    let Scene { engine: _engine, mut here, served, mut elsewhere } = scene();
    let serving = std::thread::spawn(move || serve(served));
    let receiving = std::thread::spawn(move || {
        for n in 0..MANY {
            assert_eq!(next(&mut here).bytes, n.to_le_bytes());
        }
        here
    });
    send(&mut elsewhere, 0..MANY);
    let mut here = receiving.join().unwrap();
    // The other direction.
    send(&mut here, 0..MANY);
    for n in 0..MANY {
        assert_eq!(next(&mut elsewhere).bytes, n.to_le_bytes());
    }
    // The fate of each datagram is reported.
    let end = clock::now() + PATIENCE;
    let (mut fates, mut lost) = (BTreeSet::new(), 0);
    while fates.len() < MANY as usize {
        while let Some(done) = elsewhere.sending().poll_completion() {
            assert!(matches!(done.fate, Fate::Acked | Fate::Lost), "{:?}", done.fate);
            lost += u64::from(done.fate == Fate::Lost);
            assert!(fates.insert(done.seq), "{:?} has two fates", done.seq);
        }
        assert!(clock::now() < end, "{} fates", fates.len());
        elsewhere.sending().wait(Some(clock::now() + Duration::from_millis(50)));
    }
    let counts = loop {
        let snapshot = elsewhere.sending().snapshot();
        if snapshot.transport.acked + lost == MANY {
            break snapshot;
        }
        assert!(clock::now() < end, "{snapshot:?}");
        elsewhere.sending().wait(Some(clock::now() + Duration::from_millis(60)));
    };
    // A machine that stands still for a timeout makes the sender give packets up that are on their way.
    assert!(lost == 0 || counts.transport.timeouts > 0, "{lost} were lost: {:?}", counts.transport);
    assert_eq!(counts.transport.data_received, MANY);
    assert!(counts.path.srtt.is_some());
    elsewhere.sending().finish();
    assert_eq!(closed(&elsewhere, a_moment), CloseReason::Local);
    assert_eq!(serving.join().unwrap(), Gone::Closed);
    assert_eq!(closed(&here, a_moment), CloseReason::Peer);
}

fn a_moment() {
    Waker::new().unwrap().wait(Some(Duration::from_millis(10)));
}

#[test]
fn an_application_that_goes_ends_its_stream() {
    let Scene { engine: _engine, here, served, elsewhere } = scene();
    drop(elsewhere);
    assert_eq!(serve(served), Gone::Left);
    assert_eq!(closed(&here, a_moment), CloseReason::Peer);
}

#[test]
fn an_application_hears_that_the_engine_is_gone() {
    let Scene { engine, here: _here, served, mut elsewhere } = scene();
    drop((served, engine));
    assert_eq!(closed(&elsewhere, a_moment), CloseReason::Abandoned);
    assert!(elsewhere.receiving().poll_received().is_none());
}

#[test]
fn what_is_no_wish_ends_the_stream() {
    let engine = Engine::start().unwrap();
    let listener = engine.listen("127.0.0.1:0".parse().unwrap(), config()).unwrap();
    for nonsense in [&b"nonsense"[..], &[0], &[5], &[1, 1], &[7, 1], &[7; 100_000]] {
        let Offer { served, ring: _ring, socket, .. } = engine.connect_for(listener.local_addr(), config()).unwrap();
        rustix::io::write(&socket, nonsense).unwrap();
        assert_eq!(serve(served), Gone::NotAWish, "{} bytes", nonsense.len());
    }
}

#[test]
fn an_application_that_never_reads_keeps_nobody() {
    let Scene { engine, mut here, mut served, elsewhere } = scene();
    // This socket is never read.
    let Offer { served: mut deaf, ring: _ring, socket: _socket, .. } = {
        let mut listener = engine.listen_for("127.0.0.1:0".parse().unwrap(), config(), None).unwrap();
        let mut caller = engine.connect(listener.local_addr(), config()).unwrap();
        let end = clock::now() + PATIENCE;
        let offer = loop {
            if let Some(offer) = listener.poll_accept() {
                break offer;
            }
            assert!(listener.waker().wait(Some(end.saturating_since(clock::now()))), "nobody came in");
        };
        for n in 0..4_000u64 {
            let meta = AduMeta { seq: AduSeq(n), ..AduMeta::default() };
            while caller.sending().enqueue(&meta, &[7; 1_000]).is_err() {
                assert!(clock::now() < end);
                caller.sending().wait(Some(clock::now() + Duration::from_millis(50)));
            }
        }
        offer
    };
    for _ in 0..100 {
        deaf.pump().unwrap();
        served.pump().unwrap();
    }
    assert!(deaf.is_blocked());
    // The other stream still works.
    let serving = std::thread::spawn(move || serve(served));
    send(&mut here, 0..10);
    let mut elsewhere = elsewhere;
    for n in 0..10u64 {
        assert_eq!(next(&mut elsewhere).bytes, n.to_le_bytes());
    }
    drop(elsewhere);
    assert_eq!(serving.join().unwrap(), Gone::Left);
}

#[test]
fn a_zone_is_attached_at_its_first_packet_and_an_unknown_one_is_foreign() {
    let Scene { engine: _engine, mut here, served, mut elsewhere } = scene();
    let (shared, memory) = SharedZone::create(4096, 2).unwrap();
    let open = |key| PacketZone::open(&memory, 4096, 2, ZoneKey(key), ()).unwrap();
    let known = shared.clone();
    let serving = std::thread::spawn(move || serve_with(served, |key| (key == ZoneKey(1)).then(|| known.clone())));
    for (key, queued) in [(2, false), (1, true), (2, false)] {
        let mut buffer = open(key).buffer().unwrap();
        buffer.truncate(5);
        buffer.bytes_mut().copy_from_slice(b"hello");
        let queuing = elsewhere.sending().enqueue_shared(&AduMeta::default(), &buffer.freeze());
        assert_eq!(queuing.map(drop), if queued { Ok(()) } else { Err(EnqueueError::ForeignBuffer) });
    }
    assert_eq!(next(&mut here).bytes, b"hello");
    assert_eq!(elsewhere.sending().ring().copied_bytes(), 0);
    drop(elsewhere);
    assert_eq!(serving.join().unwrap(), Gone::Left);
}

#[test]
fn an_application_that_asks_for_zones_without_waiting_is_left() {
    let engine = Engine::start().unwrap();
    let listener = engine.listen("127.0.0.1:0".parse().unwrap(), config()).unwrap();
    let Offer { served, ring: _ring, socket, .. } = engine.connect_for(listener.local_addr(), config()).unwrap();
    for _ in 0..2 {
        rustix::io::write(&socket, &[7; 18]).unwrap();
    }
    assert_eq!(serve(served), Gone::NotAWish);
}

#[test]
fn a_daemon_that_does_not_attach_a_zone_in_time_is_given_up() {
    let Scene { engine: _engine, here: _here, served: _unserved, mut elsewhere } = scene();
    let (_shared, memory) = SharedZone::create(4096, 1).unwrap();
    let buffer = PacketZone::open(memory, 4096, 1, ZoneKey(1), ()).unwrap().buffer().unwrap().freeze();
    let began = clock::now();
    let queued = elsewhere.sending().enqueue_shared(&AduMeta::default(), &buffer.part(0..5).unwrap());
    assert_eq!(queued, Err(EnqueueError::Closed));
    assert!(clock::now().saturating_since(began) < PATIENCE);
    assert_eq!(closed(&elsewhere, a_moment), CloseReason::Abandoned);
}
