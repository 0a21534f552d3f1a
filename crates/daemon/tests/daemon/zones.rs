//! Tests of packet zones: one buffer in many streams that the daemon runs, limits, and clients that die.

use std::io::{Read, Write, stdin, stdout};
use std::path::PathBuf;

use timeous_core::{AduMeta, AduSeq};
use timeous_engine::{EnqueueError, FrozenBuffer, PacketZone, Status, Stream, ZoneKey, clock};
use timeous_ipc::messages::{Failure, Resource};
use timeous_ipc::{Client, ClientError, Event, Options};

use crate::roles::argument;
use crate::streams::{connected, local, receive, spec};
use crate::support::{Host, PATIENCE, late, next, view};
use crate::users::Guard;

const SIZE: u32 = 4_096;
/// Variable for the address that a publisher calls.
const AT: &str = "TIMEOUS_DAEMON_TEST_AT";
/// Streams of a publisher.
const STREAMS: usize = 4;

/// Makes a zone; its memory is the daemon's.
fn zone(client: &mut Client, buffers: u32) -> PacketZone {
    let (key, memory) = client.make_zone(SIZE, buffers).unwrap();
    PacketZone::open(memory, SIZE, buffers, ZoneKey(key), ()).unwrap()
}

fn filled(zone: &PacketZone, bytes: &[u8]) -> FrozenBuffer {
    let mut buffer = zone.buffer().unwrap();
    buffer.truncate(bytes.len());
    buffer.bytes_mut().copy_from_slice(bytes);
    buffer.freeze()
}

#[track_caller]
fn enqueue(stream: &mut Stream, seq: u64, buffer: &FrozenBuffer) {
    let end = late();
    let meta = AduMeta { seq: AduSeq(seq), ..AduMeta::default() };
    loop {
        match stream.sending().enqueue_shared(&meta, buffer) {
            Ok(_) => return,
            Err(EnqueueError::Full) => assert!(clock::now() < end, "no room; the stream is {:?}", stream.status()),
            Err(error) => panic!("{error}"),
        }
        stream.sending().wait(Some(end));
    }
}

#[test]
fn a_packet_written_once_is_sent_by_streams_of_several_clients() {
    const PACKETS: u64 = 200;
    let host = Host::start();
    let mut maker = host.client();
    let zone = zone(&mut maker, 8);
    let mut clients: Vec<_> = (0..5).map(|_| host.client()).collect();
    let mut streams: Vec<_> = clients.iter_mut().map(|client| connected(&host, client)).collect();
    for seq in 0..PACKETS {
        let buffer = loop {
            match zone.buffer() {
                Ok(mut buffer) => {
                    buffer.truncate(1_000);
                    buffer.bytes_mut().fill(seq as u8);
                    break buffer.freeze();
                }
                Err(EnqueueError::ZoneFull) => {
                    for (here, ..) in &mut streams {
                        while here.sending().poll_completion().is_some() {}
                    }
                    std::thread::yield_now();
                }
                Err(error) => panic!("{error}"),
            }
        };
        for (here, ..) in &mut streams {
            enqueue(here, seq, &buffer);
        }
    }
    for (here, elsewhere, _) in &mut streams {
        for seq in 0..PACKETS {
            assert_eq!(receive(elsewhere).bytes, [seq as u8; 1_000]);
        }
        assert_eq!(here.sending().ring().copied_bytes(), 0);
    }
    host.until("all buffers are free", || {
        streams.iter_mut().for_each(|(here, ..)| while here.sending().poll_completion().is_some() {});
        zone.in_use() == 0
    });
}

#[test]
fn a_zone_that_the_daemon_did_not_make_for_the_user_is_foreign() {
    let host = Host::start();
    let mut client = host.client();
    let (mut here, mut elsewhere, _) = connected(&host, &mut client);
    let own = PacketZone::new(SIZE, 1).unwrap();
    let refused = |here: &mut Stream, zone: &PacketZone| {
        let buffer = filled(zone, b"x");
        assert_eq!(here.sending().enqueue_shared(&AduMeta::default(), &buffer), Err(EnqueueError::ForeignBuffer));
    };
    refused(&mut here, &own);
    // A key that is none.
    let (key, memory) = client.make_zone(SIZE, 1).unwrap();
    refused(&mut here, &PacketZone::open(&memory, SIZE, 1, ZoneKey(!key), ()).unwrap());
    // A zone whose client is gone.
    let mut maker = host.client();
    let gone = zone(&mut maker, 1);
    drop(maker);
    host.until("its client is forgotten", || view(&mut client).clients.len() == 1);
    refused(&mut here, &gone);
    // The stream goes on.
    let good = PacketZone::open(memory, SIZE, 1, ZoneKey(key), ()).unwrap();
    enqueue(&mut here, 0, &filled(&good, b"good"));
    assert_eq!(receive(&mut elsewhere).bytes, b"good");
}

#[test]
fn a_user_gets_so_many_zones_and_so_much_memory_and_both_come_back() {
    let host = Host::start();
    let mut client = host.client();
    for (size, buffers) in [(100, 1), (SIZE, 0), (0, 1), (SIZE, u32::MAX)] {
        assert!(matches!(client.make_zone(size, buffers), Err(ClientError::Failed(Failure::Invalid(_)))));
    }
    let over = |refused: Result<_, ClientError>, resource: Resource| match refused {
        Err(ClientError::Failed(Failure::OverLimit { resource: found, .. })) => assert_eq!(found, resource),
        other => panic!("{other:?}"),
    };
    let large = client.make_zone(1 << 20, 200).unwrap();
    over(client.make_zone(1 << 20, 100), Resource::RingBytes);
    for _ in 1..64 {
        client.make_zone(SIZE, 1).unwrap();
    }
    over(client.make_zone(SIZE, 1), Resource::Zones);
    drop((client, large));
    let mut client = host.client();
    host.until("zones come back", || client.make_zone(1 << 20, 200).is_ok());
}

/// A zone counts while a ring refers to it, even if the client that asked for it is gone.
#[test]
fn a_zone_counts_until_its_last_ring_is_gone() {
    let host = Host::start();
    let (mut maker, mut client) = (host.client(), host.client());
    let (key, memory) = maker.make_zone(1 << 20, 200).unwrap();
    let zone = PacketZone::open(memory, 1 << 20, 200, ZoneKey(key), ()).unwrap();
    let (mut here, mut elsewhere, listener) = connected(&host, &mut client);
    enqueue(&mut here, 0, &filled(&zone, b"first"));
    assert_eq!(receive(&mut elsewhere).bytes, b"first");
    drop(maker);
    let mut witness = host.client();
    host.until("the maker is forgotten", || view(&mut witness).clients.len() == 2);
    assert!(witness.make_zone(1 << 20, 100).is_err(), "the ring keeps it");
    enqueue(&mut here, 1, &filled(&zone, b"second"));
    assert_eq!(receive(&mut elsewhere).bytes, b"second");
    client.stop_listening(listener).unwrap();
    drop((here, elsewhere));
    host.until("the memory comes back", || witness.make_zone(1 << 20, 200).is_ok());
}

/// Runs in another process: fills rings from one zone, tells so, and waits to be killed.
pub(crate) fn publish(path: PathBuf) {
    let mut client = Client::connect(Options { path, ..Options::default() }).unwrap();
    let zone = zone(&mut client, 64);
    let at = argument(AT, local());
    let mut streams: Vec<_> = (0..STREAMS)
        .map(|_| {
            let [ring, socket] = client.connect_stream(at, spec()).unwrap();
            Stream::remote(ring, socket).unwrap()
        })
        .collect();
    for stream in &mut streams {
        while stream.status() != Status::Open {
            assert!(stream.sending().wait(Some(late())), "{:?}", stream.status());
        }
    }
    // More than the path takes at once.
    for seq in 0..40 {
        let buffer = filled(&zone, &[7; 1_000]);
        streams.iter_mut().for_each(|stream| enqueue(stream, seq, &buffer));
    }
    writeln!(stdout(), "arrived 1").and_then(|()| stdout().flush()).unwrap();
    let _ = stdin().read(&mut [0]);
}

#[test]
fn clients_killed_with_packets_of_a_zone_queued_leave_nothing_behind() {
    let mut host = Host::start();
    let mut client = host.client();
    let (listener, at) = client.listen(local(), spec()).unwrap();
    let mut before = 0;
    for round in 0..8 {
        let mut publisher = Guard(host.spawn("publisher", &[(AT, at.to_string())]));
        let mut received = Vec::new();
        while received.len() < STREAMS {
            match next(&mut client) {
                Event::Incoming { listener: which, ring, socket } if which == listener => {
                    received.push(Stream::remote(ring, socket).unwrap());
                }
                other => panic!("{other:?} in place of a caller"),
            }
        }
        for stream in &mut received {
            assert_eq!(receive(stream).bytes, [7; 1_000]);
        }
        publisher.0.kill().unwrap();
        publisher.0.wait().unwrap();
        let end = clock::now() + PATIENCE;
        for stream in &mut received {
            while !matches!(stream.status(), Status::Closed(_)) {
                while let Some(data) = stream.receiving().poll_received() {
                    assert_eq!(data.bytes, [7; 1_000]);
                }
                assert!(clock::now() < end, "{:?}", stream.status());
                stream.receiving().wait(Some(end));
            }
        }
        drop(received);
        host.until("the dead are forgotten", || view(&mut client).clients.len() == 1);
        // One-time allocations are not counted.
        before = if round < 2 { host.descriptors() } else { before };
    }
    assert!(host.is_running());
    host.until("descriptors are closed", || host.descriptors() <= before);
    host.until("memory comes back", || client.make_zone(1 << 20, 250).is_ok());
}
