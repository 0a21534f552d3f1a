//! Tests of packet zones between processes: one buffer in many rings, release, and the checks of what is passed.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use timeous_core::Instant;
use timeous_ring::{
    Config, ConfigError, Consumer, CreateError, EnqueueError, FrozenBuffer, Limits, OpenError, PAGE, PacketZone,
    Producer, SharedZone, ZoneKey, create, create_shared_for_producer,
};

use crate::adu;

const SIZE: u32 = PAGE as u32;

/// Zone as the application's and as the transport's process have it.
fn zone(buffers: u32, key: u128) -> (PacketZone, SharedZone) {
    let (shared, memory) = SharedZone::create(SIZE, buffers).unwrap();
    (PacketZone::open(memory, SIZE, buffers, ZoneKey(key), ()).unwrap(), shared)
}

fn ring() -> (Producer, Consumer) {
    let (consumer, ring) = create_shared_for_producer(&Config::new(8)).unwrap();
    (Producer::open(ring, &Limits::default()).unwrap(), consumer)
}

fn filled(zone: &PacketZone, bytes: &[u8]) -> FrozenBuffer {
    let mut buffer = zone.buffer().unwrap();
    buffer.truncate(bytes.len());
    buffer.bytes_mut().copy_from_slice(bytes);
    buffer.freeze()
}

/// Enqueues a buffer; the zone is attached before, if it has to be.
fn enqueue((producer, consumer): (&mut Producer, &Consumer), shared: &SharedZone, buffer: &FrozenBuffer) {
    if let Some(request) = producer.zone_to_attach(buffer).unwrap() {
        assert!(consumer.zones().attach(request.number(), shared));
        producer.attached(request);
    }
    producer.enqueue_shared(&adu(0), buffer).unwrap();
}

fn send(consumer: &mut Consumer) -> Vec<u8> {
    let claimed = consumer.claim(Instant::ZERO).unwrap().expect("something is queued");
    let mut bytes = Vec::new();
    assert!(consumer.copy_payload(claimed.token, &mut bytes));
    consumer.sent(claimed.token);
    bytes
}

#[test]
fn one_write_is_sent_by_many_rings_of_another_process() {
    let (zone, shared) = zone(2, 1);
    let buffer = filled(&zone, b"frame");
    let mut rings: Vec<_> = (0..100).map(|_| ring()).collect();
    for (producer, consumer) in &mut rings {
        assert_eq!(producer.enqueue_shared(&adu(0), &buffer), Err(EnqueueError::ForeignBuffer), "not attached yet");
        enqueue((producer, consumer), &shared, &buffer);
        assert!(producer.zone_to_attach(&buffer).unwrap().is_none(), "attached once");
        producer.enqueue_part(&adu(1), &buffer, 2..5).unwrap();
        assert_eq!(producer.copied_bytes(), 0);
    }
    drop(buffer);
    for (producer, consumer) in &mut rings {
        assert_eq!(zone.in_use(), 1);
        assert_eq!((send(consumer), send(consumer)), (b"frame".to_vec(), b"ame".to_vec()));
        assert_eq!(producer.poll_completion(), None);
    }
    assert_eq!(zone.in_use(), 0, "the last ring has let go");
    assert!(shared.is_used());
    drop((rings, zone));
    assert!(!shared.is_used(), "both ends of all rings are gone");
}

#[test]
fn memory_of_the_process_is_foreign_and_a_ring_within_it_takes_any_zone() {
    let (mut producer, _consumer) = ring();
    let own = PacketZone::new(SIZE, 1).unwrap();
    let buffer = filled(&own, b"own");
    assert!(matches!(producer.zone_to_attach(&buffer), Err(EnqueueError::ForeignBuffer)));
    assert_eq!(producer.enqueue_shared(&adu(0), &buffer), Err(EnqueueError::ForeignBuffer));

    let (zone, _shared) = zone(1, 1);
    let (mut here, mut here_out) = create(&Config::new(8).buffers(0)).unwrap();
    let buffer = filled(&zone, b"shared");
    assert!(here.zone_to_attach(&buffer).unwrap().is_none());
    here.enqueue_shared(&adu(0), &buffer).unwrap();
    assert_eq!(send(&mut here_out), b"shared");
}

#[test]
fn buffers_that_a_producer_left_unsent_stay_until_the_consumer_is_gone() {
    let (zone, shared) = zone(1, 1);
    let (mut producer, mut consumer) = ring();
    enqueue((&mut producer, &consumer), &shared, &filled(&zone, b"left"));
    drop(producer);
    assert!(matches!(zone.buffer(), Err(EnqueueError::ZoneFull)), "the transport may still send it");
    assert_eq!(send(&mut consumer), b"left");
    assert_eq!(zone.in_use(), 1);
    drop(consumer);
    drop(zone.buffer().expect("the consumer is gone"));
    assert_eq!(zone.in_use(), 0);

    // The other order.
    let (mut producer, consumer) = ring();
    enqueue((&mut producer, &consumer), &shared, &filled(&zone, b"left"));
    drop(consumer);
    assert_eq!(zone.in_use(), 1);
    drop(producer);
    assert_eq!(zone.in_use(), 0);
}

#[test]
fn numbers_of_zones_without_packets_are_used_again() {
    let (mut producer, mut consumer) = ring();
    for round in 0..300_u128 {
        let (zone, shared) = zone(1, round);
        let buffer = filled(&zone, &round.to_le_bytes());
        let request = producer.zone_to_attach(&buffer).unwrap().unwrap();
        assert_eq!((request.number(), request.key()), (1, ZoneKey(round)));
        assert!(consumer.zones().attach(1, &shared));
        producer.attached(request);
        producer.enqueue_shared(&adu(0), &buffer).unwrap();
        assert_eq!(send(&mut consumer), round.to_le_bytes());
    }
}

#[test]
fn a_request_whose_number_was_given_away_is_ignored() {
    let (mut producer, consumer) = ring();
    let ((one, shared), (other, _)) = (zone(1, 1), zone(1, 2));
    let (one, other) = (filled(&one, b"one"), filled(&other, b"other"));
    let late = producer.zone_to_attach(&other).unwrap().unwrap();
    enqueue((&mut producer, &consumer), &shared, &one);
    producer.attached(late);
    assert_eq!(producer.enqueue_shared(&adu(0), &other), Err(EnqueueError::ForeignBuffer));
    producer.enqueue_shared(&adu(0), &one).unwrap();
}

#[test]
fn what_is_no_zone_is_not_opened() {
    let open = |file: OwnedFd, buffers| PacketZone::open(file, SIZE, buffers, ZoneKey(1), ()).map(drop);
    let memory = || SharedZone::create(SIZE, 2).unwrap().1;
    open(memory(), 2).unwrap();
    let (expected, found) = (3 * u64::from(SIZE), 2 * u64::from(SIZE));
    assert!(matches!(open(memory(), 3), Err(OpenError::Size { expected: e, found: f }) if (e, f) == (expected, found)));
    assert!(matches!(open(memory(), 0), Err(OpenError::Config(ConfigError::Buffers(0)))));
    assert!(matches!(open(File::open("/dev/null").unwrap().into(), 2), Err(OpenError::NotSealed)));
    assert!(rustix::fs::ftruncate(memory(), 0).is_err(), "its size is sealed");
    assert!(matches!(SharedZone::create(100, 1), Err(CreateError::Config(ConfigError::BufferSize(100)))));
    assert!(matches!(SharedZone::size(SIZE, 1 << 20), Err(ConfigError::Buffers(_))));
}

#[test]
fn a_zone_keeps_its_keeper_as_long_as_anything_refers_to_it() {
    let keeper = Arc::new(());
    let (shared, memory) = SharedZone::create(SIZE, 1).unwrap();
    let zone = PacketZone::open(memory, SIZE, 1, ZoneKey(1), Arc::clone(&keeper)).unwrap();
    let (mut producer, mut consumer) = ring();
    enqueue((&mut producer, &consumer), &shared, &filled(&zone, b"kept"));
    drop(zone);
    assert_eq!(Arc::strong_count(&keeper), 2);
    drop(producer);
    assert_eq!(send(&mut consumer), b"kept");
    assert_eq!(Arc::strong_count(&keeper), 1);
}
