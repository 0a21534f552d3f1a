//! Tests of packet buffers: ownership, release, and direct file input.

use std::io::{ErrorKind, Write};

use timeous_core::Instant;
use timeous_ring::{Config, Consumer, DirectFile, DirectMode, EnqueueError, PAGE, create, create_shared};

use crate::adu;

fn send(consumer: &mut Consumer) -> Vec<u8> {
    let claimed = consumer.claim(Instant::ZERO).unwrap().expect("something is queued");
    let mut bytes = Vec::new();
    assert!(consumer.copy_payload(claimed.token, &mut bytes));
    consumer.sent(claimed.token);
    assert!(!consumer.copy_payload(claimed.token, &mut bytes), "it has left");
    bytes
}

#[test]
fn a_buffer_is_free_when_every_packet_of_it_has_left() {
    let (mut producer, mut consumer) = create(&Config::new(8).buffers(1)).unwrap();
    let mut buffer = producer.buffer().unwrap();
    assert_eq!(producer.enqueue(&adu(0), b"x"), Err(EnqueueError::ZoneFull));
    assert_eq!(buffer.bytes_mut().as_ptr() as usize % PAGE, 0, "page-aligned");
    buffer.bytes_mut()[..6].copy_from_slice(b"abcdef");
    let buffer = buffer.freeze();
    producer.enqueue_part(&adu(1), &buffer, 0..2).unwrap();
    producer.enqueue_part(&adu(2), &buffer, 1..6).unwrap();
    let beyond = PAGE - 1..PAGE + 1;
    let refused = EnqueueError::BadRange { start: beyond.start, end: beyond.end, buffer_size: PAGE };
    assert_eq!(producer.enqueue_part(&adu(3), &buffer, beyond), Err(refused));
    drop(buffer);
    assert_eq!(send(&mut consumer), b"ab");
    assert!(matches!(producer.buffer(), Err(EnqueueError::ZoneFull)));
    assert_eq!(send(&mut consumer), b"bcdef");
    assert!(producer.buffer().is_ok());
}

#[test]
fn a_buffer_let_go_unused_is_free_again() {
    let (mut producer, _consumer) = create(&Config::new(8).buffers(2)).unwrap();
    for _ in 0..10 {
        let one = producer.buffer().unwrap();
        let other = producer.buffer().unwrap().freeze();
        let again = other.clone();
        assert!(matches!(producer.buffer(), Err(EnqueueError::ZoneFull)));
        std::thread::spawn(move || drop((one, other))).join().unwrap();
        let _first_back = producer.buffer().unwrap();
        assert!(matches!(producer.buffer(), Err(EnqueueError::ZoneFull)));
        drop(again);
    }
}

#[test]
fn a_buffer_of_another_zone_is_refused_if_the_transport_is_another_process() {
    let (mut producer, _fd) = create_shared(&Config::new(8)).unwrap();
    let (mut other, _other_consumer) = create(&Config::new(8)).unwrap();
    let buffer = other.buffer().unwrap();
    assert_eq!(producer.enqueue_buffer(&adu(1), buffer, 5), Err(EnqueueError::ForeignBuffer));
}

#[test]
fn an_adu_larger_than_a_buffer_is_refused() {
    let (mut producer, mut consumer) = create(&Config::new(8)).unwrap();
    let refused = EnqueueError::TooLarge { len: PAGE + 1, buffer_size: PAGE };
    assert_eq!(producer.enqueue(&adu(1), &vec![0; PAGE + 1]), Err(refused));
    producer.enqueue(&adu(2), &vec![9; PAGE]).unwrap();
    assert_eq!(send(&mut consumer), vec![9; PAGE]);
}

#[test]
fn a_file_is_read_straight_into_a_buffer() {
    let content: Vec<u8> = (0..3 * PAGE + 100).map(|at| (at / 3) as u8).collect();
    // Unlike /tmp, the build directory is usually on a disk.
    let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    file.write_all(&content).unwrap();
    file.as_file().sync_all().unwrap();
    let direct = DirectFile::open(file.path()).unwrap();
    match direct.mode() {
        DirectMode::Direct => println!("read with O_DIRECT"),
        DirectMode::Cached => println!("THIS FILE SYSTEM HAS NO O_DIRECT: read through the page cache instead"),
    }
    let (mut producer, mut consumer) = create(&Config::new(8).buffer_size(2 * PAGE as u32)).unwrap();
    for offset in [0, 2 * PAGE] {
        let mut buffer = producer.buffer().unwrap();
        let len = buffer.read_from(&direct, offset as u64, 2 * PAGE).unwrap();
        assert_eq!(len, content[offset..].len().min(2 * PAGE));
        producer.enqueue_buffer(&adu(offset as u64), buffer, len).unwrap();
    }
    assert_eq!([send(&mut consumer), send(&mut consumer)].concat(), content);
    let mut buffer = producer.buffer().unwrap();
    let too_long = buffer.read_from(&direct, 0, 2 * PAGE + 1).unwrap_err();
    assert_eq!(too_long.kind(), ErrorKind::InvalidInput);
}
