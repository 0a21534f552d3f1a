//! Test with two threads: each packet arrives once, complete and in order, while the producer keeps changing the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use timeous_core::{DropReason, Fate, Instant, Queue, Rng};
use timeous_ring::{Config, Consumer, EnqueueError, Index, Producer, create};

use crate::{adu, payload};

const PACKETS: u64 = 200_000;
const LONGEST: usize = 300;

/// Enqueues, pulls back, swaps and withdraws at random; returns the fates by number.
fn produce(mut producer: Producer, transport: &JoinHandle<Vec<u64>>) -> Vec<Option<Fate>> {
    let mut rng = Rng::from_seed(1);
    let mut fates = vec![None; PACKETS as usize];
    let mut known = 0;
    let mut next = 0;
    while known < PACKETS {
        assert!(!transport.is_finished(), "the consumer has failed");
        if next < PACKETS {
            match put(&mut producer, next) {
                Ok(_) => next += 1,
                Err(EnqueueError::Full) => thread::yield_now(),
                Err(other) => panic!("{other}"),
            }
        }
        if rng.below(4) == 0 {
            let mut pulled = producer.pull_back(1 + rng.below(8) as usize).unwrap();
            let len = pulled.len();
            if len >= 2 {
                pulled.swap(rng.below(len as u64) as usize, rng.below(len as u64) as usize);
            }
            if len >= 1 && rng.below(4) == 0 {
                pulled.withdraw(rng.below(len as u64) as usize);
            }
        }
        while let Some(done) = producer.poll_completion() {
            let fate = &mut fates[done.seq.0 as usize];
            assert_eq!(*fate, None, "{:?} has two fates", done.seq);
            *fate = Some(done.fate);
            known += 1;
        }
        if next == PACKETS {
            thread::yield_now();
        }
    }
    assert_eq!(producer.broken(), None);
    assert_eq!(producer.completions_lost(), 0);
    fates
}

/// Enqueues by copying or in-place filling, alternately.
fn put(producer: &mut Producer, seq: u64) -> Result<Index, EnqueueError> {
    let bytes = payload(seq, LONGEST);
    if seq.is_multiple_of(2) {
        return producer.enqueue(&adu(seq), &bytes);
    }
    let mut buffer = producer.buffer()?;
    buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
    producer.enqueue_buffer(&adu(seq), buffer, bytes.len())
}

/// Claims packets until told to stop; returns the numbers of those sent.
fn consume(mut consumer: Consumer, stop: &AtomicBool) -> Vec<u64> {
    let mut rng = Rng::from_seed(2);
    let (mut sent, mut bytes) = (Vec::new(), Vec::new());
    while !stop.load(Ordering::Acquire) {
        if rng.below(8) == 0 {
            let mut queue = consumer.queued().unwrap();
            for place in 0..queue.len() {
                let Some((meta, len)) = queue.get(place) else { continue };
                assert_eq!(len, payload(meta.seq.0, LONGEST).len());
                if meta.seq.0 % 97 == 0 {
                    queue.drop_at(place, DropReason::Policy);
                }
            }
        }
        let Some(claimed) = consumer.claim(Instant::ZERO).unwrap() else {
            thread::yield_now();
            continue;
        };
        bytes.clear();
        assert!(consumer.copy_payload(claimed.token, &mut bytes));
        assert_eq!(bytes, payload(claimed.meta.seq.0, LONGEST));
        consumer.sent(claimed.token);
        consumer.acked(claimed.token);
        sent.push(claimed.meta.seq.0);
    }
    sent
}

#[test]
fn a_restless_producer_and_a_choosy_consumer() {
    let (producer, consumer) = create(&Config::new(64).completions(1 << 18)).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let transport = thread::spawn(move || consume(consumer, &stopped));
    let fates = produce(producer, &transport);
    stop.store(true, Ordering::Release);
    let mut sent = transport.join().unwrap();
    sent.sort_unstable();
    let acked = fates.iter().enumerate().filter(|(_, fate)| **fate == Some(Fate::Acked));
    assert!(acked.map(|(seq, _)| seq as u64).eq(sent), "what was sent was acknowledged, and nothing else");
}
