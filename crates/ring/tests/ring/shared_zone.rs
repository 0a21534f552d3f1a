//! Tests of packet zones apart from rings: one buffer in many rings, release, reuse and rewriting in place.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use timeous_core::Instant;
use timeous_ring::{
    Config, ConfigError, Consumer, CreateError, DirectMode, EnqueueError, FrozenBuffer, PAGE, PacketZone, Producer,
    ReadError, create, create_shared,
};

use crate::{adu, payload};

/// Rings without buffers of their own.
fn rings(count: usize) -> Vec<(Producer, Consumer)> {
    (0..count).map(|_| create(&Config::new(8).buffers(0)).unwrap()).collect()
}

fn zone(buffers: u32) -> PacketZone {
    PacketZone::new(PAGE as u32, buffers).unwrap()
}

fn filled(zone: &PacketZone, bytes: &[u8]) -> FrozenBuffer {
    let mut buffer = zone.buffer().unwrap();
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
    buffer.truncate(bytes.len());
    buffer.freeze()
}

fn enqueue(producer: &mut Producer, seq: u64, buffer: &FrozenBuffer) {
    producer.enqueue_shared(&adu(seq), buffer).unwrap();
}

/// Sends the next packet; returns its bytes and their address.
fn send(consumer: &mut Consumer) -> (Vec<u8>, *const u8) {
    let claimed = consumer.claim(Instant::ZERO).unwrap().expect("something is queued");
    let mut bytes = Vec::new();
    assert!(consumer.copy_payload(claimed.token, &mut bytes));
    let address = consumer.payload(claimed.token).unwrap().as_ptr();
    consumer.sent(claimed.token);
    assert!(consumer.payload(claimed.token).is_none(), "it has left");
    (bytes, address)
}

#[test]
fn one_write_is_sent_by_a_thousand_rings_from_one_address() {
    let zone = zone(2);
    let buffer = filled(&zone, b"frame");
    let mut rings = rings(1000);
    for (producer, _) in &mut rings {
        enqueue(producer, 0, &buffer);
        assert_eq!(producer.copied_bytes(), 0);
    }
    let address = buffer.bytes().as_ptr();
    drop(buffer);
    for (at, (producer, consumer)) in rings.iter_mut().enumerate() {
        assert_eq!(zone.in_use(), 1, "ring {at} has not sent it yet");
        assert_eq!(send(consumer), (b"frame".to_vec(), address));
        assert_eq!(producer.poll_completion(), None);
    }
    assert_eq!(zone.in_use(), 0, "the last ring has let go");
}

#[test]
fn a_ring_without_buffers_copies_nothing() {
    let mut rings = rings(1);
    let (producer, _) = &mut rings[0];
    assert_eq!(producer.enqueue(&adu(0), b"x"), Err(EnqueueError::NoZone));
    assert!(matches!(producer.buffer(), Err(EnqueueError::NoZone)));
    assert_eq!(PacketZone::new(PAGE as u32, 0).unwrap_err(), ConfigError::Buffers(0));
    let refused = create_shared(&Config::new(8).buffers(0));
    assert!(matches!(refused, Err(CreateError::Config(ConfigError::Buffers(0)))), "no zone can be attached there");
}

#[test]
fn own_buffers_and_those_of_other_rings_and_zones_mix() {
    let zone = zone(1);
    let (mut one, mut one_out) = create(&Config::new(8).buffers(2)).unwrap();
    let (mut other, mut other_out) = create(&Config::new(8).buffers(1)).unwrap();
    one.enqueue(&adu(0), b"copied").unwrap();
    enqueue(&mut one, 1, &filled(&zone, b"zone"));
    let mut buffer = other.buffer().unwrap();
    buffer.bytes_mut()[..5].copy_from_slice(b"other");
    one.enqueue_buffer(&adu(2), buffer, 5).unwrap();
    assert_eq!(other.enqueue(&adu(0), b"x"), Err(EnqueueError::ZoneFull), "its only buffer is queued elsewhere");
    let sent: Vec<_> = (0..3).map(|_| send(&mut one_out).0).collect();
    assert_eq!(sent, [&b"copied"[..], b"zone", b"other"]);
    assert_eq!(one.free_slots(), 7);
    assert_eq!(zone.in_use(), 0);
    other.enqueue(&adu(0), b"x").unwrap();
    assert_eq!(send(&mut other_out).0, b"x");
}

#[test]
fn packets_of_more_zones_than_a_ring_can_name_wait_for_others_to_leave() {
    let (mut producer, mut consumer) = create(&Config::new(256).buffers(0)).unwrap();
    for round in 0..3 {
        let zones: Vec<_> = (0..127).map(|_| zone(1)).collect();
        for (at, zone) in zones.iter().enumerate() {
            enqueue(&mut producer, 0, &filled(zone, &[round, at as u8]));
        }
        let (one_more, refused) = (zone(1), EnqueueError::TooManyZones);
        let buffer = filled(&one_more, b"more");
        assert_eq!(producer.enqueue_shared(&adu(0), &buffer), Err(refused));
        for at in 0..127 {
            assert_eq!(send(&mut consumer).0, [round, at]);
        }
        producer.enqueue_shared(&adu(0), &buffer).unwrap();
        assert_eq!(send(&mut consumer).0, b"more");
        assert_eq!(producer.free_slots(), 255);
    }
}

#[test]
fn a_producer_that_ends_leaves_its_unsent_buffers_to_the_consumer() {
    let zone = zone(2);
    let (mut producer, mut consumer) = rings(1).remove(0);
    enqueue(&mut producer, 0, &filled(&zone, b"first"));
    enqueue(&mut producer, 1, &filled(&zone, b"second"));
    assert_eq!(send(&mut consumer).0, b"first");
    drop(producer);
    assert_eq!(zone.in_use(), 1, "the first has left, the second has not");
    let _other = filled(&zone, b"other");
    assert!(matches!(zone.buffer(), Err(EnqueueError::ZoneFull)));
    assert_eq!(send(&mut consumer).0, b"second");
    drop(consumer);
    assert_eq!(zone.in_use(), 1);
}

#[test]
fn memory_of_a_zone_outlives_its_last_handle() {
    let (mut producer, mut consumer) = rings(1).remove(0);
    let lonely = zone(1);
    enqueue(&mut producer, 0, &filled(&lonely, b"still here"));
    drop(lonely);
    drop(producer);
    assert_eq!(send(&mut consumer).0, b"still here");
}

#[test]
fn a_pulled_back_payload_is_rewritten_in_place_unless_it_is_shared() {
    let zone = zone(1);
    let mut rings = rings(2);
    let buffer = filled(&zone, b"position 17");
    enqueue(&mut rings[0].0, 0, &buffer);
    enqueue(&mut rings[1].0, 0, &buffer);
    for (producer, _) in &mut rings {
        let mut pulled = producer.pull_back_all().unwrap();
        assert_eq!(pulled.payload(0).unwrap(), b"position 17");
        assert!(pulled.payload_mut(0).is_none(), "shared");
        assert!(pulled.payload(1).is_none() && pulled.payload_mut(1).is_none(), "no such place");
    }
    let buffer = buffer.thaw().unwrap_err();
    assert_eq!(send(&mut rings[1].1).0, b"position 17");
    assert_eq!(rings[1].0.poll_completion(), None);
    let mut pulled = rings[0].0.pull_back_all().unwrap();
    assert!(pulled.payload_mut(0).is_none(), "shared with a handle");
    drop(buffer);
    pulled.payload_mut(0).unwrap()[9..].copy_from_slice(b"18");
    pulled.release();
    assert_eq!(send(&mut rings[0].1).0, b"position 18");
}

#[test]
fn an_own_payload_that_was_pulled_back_is_rewritten_in_place() {
    let (mut producer, mut consumer) = create(&Config::new(8)).unwrap();
    for seq in 0..2 {
        producer.enqueue(&adu(seq), format!("old {seq}").as_bytes()).unwrap();
    }
    let mut pulled = producer.pull_back_all().unwrap();
    pulled.swap(0, 1);
    pulled.payload_mut(0).unwrap()[..3].copy_from_slice(b"new");
    pulled.rewrite(1, &adu(0), b"copied").unwrap();
    pulled.release();
    assert_eq!((send(&mut consumer).0, send(&mut consumer).0), (b"new 1".to_vec(), b"copied".to_vec()));
}

/// Several threads take buffers of one zone, fill them, share them with all rings and let them go, while other threads
/// send from the rings: each ring sends what was written, and all buffers come back.
#[test]
fn threads_share_a_zone() {
    const WRITERS: u64 = 2;
    const EACH: u64 = 3_000;
    let zone = zone(6);
    let done = AtomicBool::new(false);
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        let mut writers = Vec::new();
        for writer in 0..WRITERS {
            let mut producers = Vec::new();
            for (producer, mut consumer) in rings(2) {
                producers.push(producer);
                let (done, sent) = (&done, &sent);
                scope.spawn(move || {
                    let mut bytes = Vec::new();
                    while !done.load(Ordering::Acquire) {
                        let Some(claimed) = consumer.claim(Instant::ZERO).unwrap() else {
                            thread::yield_now();
                            continue;
                        };
                        bytes.clear();
                        assert!(consumer.copy_payload(claimed.token, &mut bytes));
                        assert_eq!(bytes, payload(claimed.meta.seq.0, 100));
                        consumer.sent(claimed.token);
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let zone = zone.clone();
            writers.push(scope.spawn(move || {
                for seq in (writer..EACH * WRITERS).step_by(WRITERS as usize) {
                    let mut buffer = loop {
                        match zone.buffer() {
                            Ok(buffer) => break buffer,
                            Err(EnqueueError::ZoneFull) => {
                                for producer in &mut producers {
                                    producer.free_slots();
                                }
                                thread::yield_now();
                            }
                            Err(other) => panic!("{other}"),
                        }
                    };
                    let bytes = payload(seq, 100);
                    buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                    buffer.truncate(bytes.len());
                    let buffer = buffer.freeze();
                    for producer in &mut producers {
                        while let Err(error) = producer.enqueue_shared(&adu(seq), &buffer) {
                            assert_eq!(error, EnqueueError::Full);
                            thread::yield_now();
                        }
                    }
                }
                // The other writer waits for buffers that these rings would hold until they are asked.
                while producers.iter_mut().any(|producer| producer.free_slots() < 7) {
                    thread::yield_now();
                }
            }));
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Release);
        assert_eq!(sent.load(Ordering::Relaxed) as u64, EACH * WRITERS * 2);
    });
    assert_eq!(zone.in_use(), 0);
}

#[test]
fn parts_of_a_buffer_are_buffers() {
    let zone = zone(1);
    let buffer = filled(&zone, b"0123456789");
    let part = buffer.part(2..8).unwrap().part(1..4).unwrap();
    assert_eq!(part.bytes(), b"345");
    let (start, end, buffer_size) = (2, 4, 3);
    assert_eq!(part.part(start..end).unwrap_err(), EnqueueError::BadRange { start, end, buffer_size });
    drop(buffer);
    let (mut producer, mut consumer) = rings(1).remove(0);
    enqueue(&mut producer, 0, &part);
    assert!(part.thaw().is_err());
    assert_eq!(send(&mut consumer).0, b"345");
}

#[test]
fn a_file_is_read_buffer_by_buffer() {
    let content: Vec<u8> = (0..3 * PAGE + 100).map(|at| (at / 3) as u8).collect();
    // Unlike /tmp, the build directory is usually on a disk.
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&content).unwrap();
    file.as_file().sync_all().unwrap();
    let zone = PacketZone::new(2 * PAGE as u32, 2).unwrap();
    let mut reader = zone.read_file(file.path()).unwrap();
    let first = reader.next_buffer().unwrap().unwrap().freeze();
    match reader.mode() {
        DirectMode::Direct => println!("read with O_DIRECT"),
        DirectMode::Cached => println!("THIS FILE SYSTEM HAS NO O_DIRECT: read through the page cache instead"),
    }
    let second = reader.next_buffer().unwrap().unwrap().freeze();
    assert_eq!([first.bytes(), second.bytes()].concat(), content);
    assert!(matches!(reader.next_buffer(), Err(ReadError::Zone(EnqueueError::ZoneFull))));
    drop(first);
    assert!(reader.next_buffer().unwrap().is_none(), "the end");
}

#[test]
fn a_file_without_direct_input_is_read_nevertheless() {
    let zone = zone(1);
    let mut reader = zone.read_file("/proc/self/stat").unwrap();
    let buffer = reader.next_buffer().unwrap().unwrap().freeze();
    assert!(buffer.bytes().starts_with(std::process::id().to_string().as_bytes()));
    assert_eq!(reader.mode(), DirectMode::Cached);
}
