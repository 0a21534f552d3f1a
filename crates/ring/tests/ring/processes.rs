//! Tests with two processes and a sealed memfd: a million packets, and all checks of a file before it is opened.
//!
//! The other process is this test binary, started again with the ring as its standard input.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write, stdin};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use timeous_core::{Fate, Instant};
use timeous_ring::{
    Config, Consumer, EnqueueError, Limits, OpenError, Producer, create_shared, create_shared_for_producer,
};

use crate::{adu, payload};

const ROLE: &str = "TIMEOUS_RING_TEST_ROLE";
const PACKETS: u64 = 1_000_000;
const LONGEST: usize = 64;

fn produce(mut producer: Producer, mut alive: impl FnMut()) {
    let (mut next, mut acked) = (0, 0);
    while acked < PACKETS {
        match if next < PACKETS {
            producer.enqueue(&adu(next), &payload(next, LONGEST))
        } else {
            Err(EnqueueError::Full)
        } {
            Ok(_) => next += 1,
            Err(EnqueueError::Full) => {
                alive();
                thread::yield_now();
            }
            Err(other) => panic!("{other}"),
        }
        while let Some(done) = producer.poll_completion() {
            assert_eq!((done.seq.0, done.fate), (acked, Fate::Acked));
            acked += 1;
        }
        assert_eq!(producer.broken(), None);
    }
    assert_eq!(producer.completions_lost(), 0);
}

fn consume(mut consumer: Consumer, mut alive: impl FnMut()) {
    let mut bytes = Vec::new();
    let mut expected = 0;
    while expected < PACKETS {
        let Some(claimed) = consumer.claim(Instant::ZERO).unwrap() else {
            alive();
            thread::yield_now();
            continue;
        };
        bytes.clear();
        assert!(consumer.copy_payload(claimed.token, &mut bytes));
        assert_eq!(claimed.meta, adu(expected));
        assert_eq!(bytes, payload(expected, LONGEST));
        consumer.sent(claimed.token);
        consumer.acked(claimed.token);
        expected += 1;
    }
}

fn start(role: &str, ring: OwnedFd) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::the_other_process", "--nocapture"])
        .env(ROLE, role)
        .stdin(Stdio::from(ring))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn still_runs(child: &mut Child) {
    if let Some(status) = child.try_wait().unwrap() {
        assert!(status.success(), "the other process ended with {status}");
    }
}

/// Entry point of the other process, no test by itself. Does nothing without a role.
#[test]
fn the_other_process() {
    let limits = Limits::default();
    // The parent kills this process on failure; this process ends if its parent is gone.
    let parent = rustix::process::getppid();
    let orphaned = || assert_eq!(rustix::process::getppid(), parent, "the first process is gone");
    match std::env::var(ROLE).as_deref() {
        Ok("consumer") => consume(Consumer::open(stdin(), &limits).unwrap(), orphaned),
        Ok("producer") => produce(Producer::open(stdin(), &limits).unwrap(), orphaned),
        _ => {}
    }
}

#[test]
fn a_million_packets_to_another_process() {
    let (producer, fd) = create_shared(&Config::new(256).completions(1 << 16)).unwrap();
    let mut child = start("consumer", fd);
    produce(producer, || still_runs(&mut child));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_million_packets_from_another_process() {
    let (consumer, fd) = create_shared_for_producer(&Config::new(256).completions(1 << 20)).unwrap();
    let mut child = start("producer", fd);
    consume(consumer, || still_runs(&mut child));
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_side_is_taken_once() {
    let (_producer, fd) = create_shared(&Config::new(8)).unwrap();
    let limits = Limits::default();
    assert!(matches!(Producer::open(&fd, &limits), Err(OpenError::Taken)));
    let _consumer = Consumer::open(&fd, &limits).unwrap();
    assert!(matches!(Consumer::open(&fd, &limits), Err(OpenError::Taken)));
}

#[test]
fn a_ring_that_was_used_is_not_opened_as_new() {
    let (mut producer, fd) = create_shared(&Config::new(8)).unwrap();
    producer.enqueue(&adu(1), b"early").unwrap();
    assert!(matches!(Producer::open(&fd, &Limits::default()), Err(OpenError::NotFresh)));
    let mut consumer = Consumer::open(&fd, &Limits::default()).unwrap();
    assert!(consumer.has_queued(), "what was enqueued before is there");
}

#[test]
fn more_than_is_granted_is_refused() {
    let (_producer, fd) = create_shared(&Config::new(64)).unwrap();
    let slots = Limits { slots: 32, ..Limits::default() };
    assert!(matches!(Consumer::open(&fd, &slots), Err(OpenError::OverLimit { slots: 64, .. })));
    let bytes = Limits { bytes: 100_000, ..Limits::default() };
    assert!(matches!(Consumer::open(&fd, &bytes), Err(OpenError::OverLimit { .. })));
}

#[test]
fn a_file_that_is_not_sealed_is_refused() {
    let limits = Limits::default();
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    assert!(matches!(Consumer::open(&file, &limits), Err(OpenError::NotSealed)));
    for missing in [SealFlags::SHRINK, SealFlags::GROW, SealFlags::SEAL] {
        let fd = memfd_create("unsealed", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&fd, 1 << 20).unwrap();
        fcntl_add_seals(&fd, (SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL) - missing).unwrap();
        assert!(matches!(Consumer::open(&fd, &limits), Err(OpenError::NotSealed)), "without {missing:?}");
    }
}

/// Sealed copy of a ring's file with one word changed and another length.
fn forged(ring: impl AsFd, word: u64, value: u64, longer_by: i64) -> OwnedFd {
    let mut bytes = Vec::new();
    let mut source = File::from(ring.as_fd().try_clone_to_owned().unwrap());
    source.seek(SeekFrom::Start(0)).unwrap();
    source.read_to_end(&mut bytes).unwrap();
    let mut file = File::from(memfd_create("forged", MemfdFlags::ALLOW_SEALING).unwrap());
    file.write_all(&bytes).unwrap();
    file.seek(SeekFrom::Start(word * 8)).unwrap();
    file.write_all(&value.to_ne_bytes()).unwrap();
    file.set_len(bytes.len().saturating_add_signed(longer_by as isize) as u64).unwrap();
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).unwrap();
    file.into()
}

#[test]
fn a_forged_header_is_refused() {
    let (_producer, fd) = create_shared(&Config::new(8)).unwrap();
    let limits = Limits::default();
    let open = |word, value, longer| Consumer::open(forged(&fd, word, value, longer), &limits).map(drop);
    assert!(matches!(open(0, 1, 0), Err(OpenError::Header(1))));
    for (word, value) in [(1, 7), (1, 1 << 21), (1, u64::MAX), (2, 1), (3, 0), (3, u64::MAX), (4, 3), (4, 1 << 40)] {
        assert!(matches!(open(word, value, 0), Err(OpenError::Config(_))), "word {word} with {value}");
    }
    for (word, value) in [(1, 64), (2, 8192), (3, 9), (4, 4096)] {
        assert!(matches!(open(word, value, 0), Err(OpenError::Size { .. })), "word {word} with {value}");
    }
    for longer in [-8, 8, 4096, -4096, i64::from(i32::MIN)] {
        assert!(matches!(open(7, 0, longer), Err(OpenError::Size { .. })), "longer by {longer}");
    }
    assert!(open(7, 0, 0).is_ok(), "an unchanged copy");
}
