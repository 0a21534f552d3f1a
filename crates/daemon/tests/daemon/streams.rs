//! Tests of streams that the daemon's engine runs for clients.

use std::net::SocketAddr;

use timeous_core::{AduMeta, AduSeq, Duration, Rate, Reason};
use timeous_engine::{Received, Status, Stream, clock};
use timeous_ipc::messages::{Dbat, Failure, Marked, Policy, StreamSpec};
use timeous_ipc::{Client, ClientError, Event};

use crate::support::{Host, late, next, pause, view};

pub(crate) fn spec() -> StreamSpec {
    StreamSpec {
        service: *b"test",
        dccp_port: 5_004,
        ccid: 2,
        controller: None,
        local: None,
        native: false,
        slots: 64,
        mps: 1_200,
        connect_timeout: Duration::from_secs(10).into(),
        keep_alive: None,
        silence: Duration::from_secs(10).into(),
        msl: Duration::from_millis(500).into(),
        server_holds_timewait: true,
        policy: Policy::Fifo,
        repair: None,
    }
}

pub(crate) fn local() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Opens a stream of the client to itself; returns the caller's end, the listener's end, and the listener's number.
pub(crate) fn connected(host: &Host, client: &mut Client) -> (Stream, Stream, u32) {
    let (listener, at) = client.listen(local(), spec()).unwrap();
    let [ring, socket] = client.connect_stream(at, spec()).unwrap();
    let here = Stream::remote(ring, socket).unwrap();
    let elsewhere = match next(client) {
        Event::Incoming { listener: which, ring, socket } if which == listener => Stream::remote(ring, socket).unwrap(),
        other => panic!("{other:?} in place of a caller"),
    };
    host.until("the stream is open", || here.status() == Status::Open);
    (here, elsewhere, listener)
}

pub(crate) fn send(stream: &mut Stream, numbers: std::ops::Range<u64>) {
    let end = late();
    for n in numbers {
        let meta = AduMeta { seq: AduSeq(n), ..AduMeta::default() };
        while stream.sending().enqueue(&meta, &n.to_le_bytes()).is_err() {
            assert!(clock::now() < end, "no room; the stream is {:?}", stream.status());
            stream.sending().wait(Some(clock::now() + Duration::from_millis(50)));
        }
    }
}

#[track_caller]
pub(crate) fn receive(stream: &mut Stream) -> Received {
    let end = late();
    loop {
        if let Some(received) = stream.receiving().poll_received() {
            return received;
        }
        assert!(clock::now() < end, "nothing came; the stream is {:?}", stream.status());
        stream.receiving().wait(Some(end));
    }
}

#[test]
fn data_go_both_ways() {
    let host = Host::start();
    let mut client = host.client();
    let (mut here, mut elsewhere, listener) = connected(&host, &mut client);
    send(&mut here, 0..500);
    for n in 0..500_u64 {
        assert_eq!(receive(&mut elsewhere).bytes, n.to_le_bytes());
    }
    send(&mut elsewhere, 0..5);
    for n in 0..5_u64 {
        assert_eq!(receive(&mut here).bytes, n.to_le_bytes());
    }
    assert!(view(&mut client).macroflows.iter().any(|macroflow| macroflow.user.is_none()), "the host's own flows");
    client.stop_listening(listener).unwrap();
    assert!(matches!(
        client.stop_listening(listener),
        Err(ClientError::Failed(Failure::UnknownListener(which))) if which == listener
    ));
    drop((here, elsewhere));
}

#[test]
fn a_listener_with_room_for_one_takes_one_and_peers_addresses_are_told() {
    let host = Host::start();
    let mut client = host.client();
    let (listener, at) = client.listen_with_room(local(), spec(), Some(1)).unwrap();
    let call = |client: &mut Client| {
        let [ring, socket] = client.connect_stream(at, spec()).unwrap();
        Stream::remote(ring, socket).unwrap()
    };
    let first = call(&mut client);
    let Event::Incoming { listener: which, ring, socket } = next(&mut client) else { panic!("nobody has called") };
    assert_eq!(which, listener);
    let taken = Stream::remote(ring, socket).unwrap();
    host.until("the stream is open", || first.status() == Status::Open && taken.status() == Status::Open);
    assert_eq!(first.peer(), Some(at));
    assert!(taken.peer().is_some_and(|peer| peer.ip() == at.ip() && peer != at));
    let second = call(&mut client);
    host.until("the other is refused", || matches!(second.status(), Status::Closed(reason) if reason.is_busy()));
    assert_eq!(first.status(), Status::Open);
    // The application refuses the connection.
    taken.refuse();
    host.until("its caller hears of it", || matches!(first.status(), Status::Closed(reason) if reason.is_busy()));
}

#[test]
fn a_stream_that_the_daemon_runs_advises_its_source() {
    let host = Host::start();
    let mut client = host.client();
    let dbat = Dbat {
        marked: Marked::Priority(255),
        only_marked: true,
        least_delay: Duration::from_millis(100).into(),
        max_threshold: None,
    };
    let spec = StreamSpec { policy: Policy::Dbat(dbat), ..spec() };
    let (_, at) = client.listen(local(), spec).unwrap();
    let [ring, socket] = client.connect_stream(at, spec).unwrap();
    let mut stream = Stream::remote(ring, socket).unwrap();
    host.until("the stream is open", || stream.status() == Status::Open);
    // Below the rate of the data sent here.
    let rate = Rate::from_kbps(5);
    stream.sending().set_rate(rate);
    let end = late();
    for n in 0.. {
        assert!(clock::now() < end, "nobody was told");
        let meta = AduMeta { seq: AduSeq(n), enqueued: clock::now(), ..AduMeta::default() };
        stream.sending().enqueue(&meta, &[0; 250]).unwrap();
        if let Some(advice) = stream.sending().poll_advice() {
            assert_eq!((advice.reason, advice.stream), (Reason::Room, rate));
            assert!(advice.rate > rate, "{advice:?}");
            break;
        }
        while stream.sending().poll_completion().is_some() {}
        pause(Duration::from_millis(20));
    }
    host.until("it stands in the snapshot", || {
        stream
            .sending()
            .snapshot()
            .buffer
            .is_some_and(|buffer| buffer.stream == Some(rate) && buffer.advised > Some(rate))
    });
}

#[test]
fn a_stream_that_ends_leaves_nothing_behind() {
    let host = Host::start();
    let mut client = host.client();
    drop(connected(&host, &mut client));
    pause(Duration::from_millis(1_500));
    let before = host.descriptors();
    for _ in 0..20 {
        let (mut here, mut elsewhere, listener) = connected(&host, &mut client);
        send(&mut here, 0..3);
        receive(&mut elsewhere);
        client.stop_listening(listener).unwrap();
    }
    host.until("descriptors are closed", || host.descriptors() <= before);
}
