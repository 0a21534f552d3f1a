//! The races of the ring, explored by a model checker: `RUSTFLAGS="--cfg loom" cargo test -p timeous-ring --test loom --release`.
#![cfg(loom)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::thread;
use timeous_core::{AduMeta, AduSeq, DropReason, Fate, Instant, Queue};
use timeous_ring::{Config, Consumer, PAGE, PacketZone, Producer, create};

fn adu(seq: u64) -> AduMeta {
    AduMeta { seq: AduSeq(seq), ..AduMeta::default() }
}

fn payload(seq: u64) -> [u8; 8] {
    seq.wrapping_mul(0x0101_0101_0101_0101).to_ne_bytes()
}

fn ring(slots: u32, queued: u64) -> (Producer, Consumer) {
    let config = Config::new(slots).buffer_size(PAGE as u32).completions(slots);
    let (mut producer, consumer) = create(&config).unwrap();
    for seq in 1..=queued {
        producer.enqueue(&adu(seq), &payload(seq)).unwrap();
    }
    (producer, consumer)
}

/// Claims up to `times` packets and confirms them; checks that each is complete.
fn take(consumer: &mut Consumer, times: usize) -> Vec<u64> {
    let mut seqs = Vec::new();
    for _ in 0..times {
        let Some(claimed) = consumer.claim(Instant::ZERO).unwrap() else { break };
        let mut bytes = Vec::new();
        consumer.copy_payload(claimed.token, &mut bytes);
        assert_eq!(bytes, payload(claimed.meta.seq.0), "the payload is that of the record");
        consumer.sent(claimed.token);
        seqs.push(claimed.meta.seq.0);
    }
    seqs
}

fn model(body: impl Fn() + Sync + Send + 'static) {
    explore(loom::model::Builder::new(), body);
}

fn explore(mut builder: loom::model::Builder, body: impl Fn() + Sync + Send + 'static) {
    builder.max_branches = 100_000;
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        body();
    });
    println!("{} executions explored", runs.load(Ordering::Relaxed));
}

/// The paper's figure 6, exhaustively: in any interleaving each packet is either sent unchanged or pulled back.
#[test]
fn pull_back_against_claim() {
    model(|| {
        let (mut producer, mut consumer) = ring(4, 3);
        let transport = thread::spawn(move || {
            let seqs = take(&mut consumer, 2);
            (consumer, seqs)
        });
        let mut pulled = producer.pull_back(2).unwrap();
        let owned: Vec<u64> = (0..pulled.len()).map(|place| pulled.get(place).unwrap().0.seq.0).collect();
        assert!(owned.iter().eq([2, 3][2 - owned.len()..].iter()), "the newest, in order: {owned:?}");
        for (place, seq) in owned.iter().enumerate() {
            pulled.rewrite(place, &adu(seq + 10), &payload(seq + 10)).unwrap();
        }
        pulled.release();
        let (mut consumer, mut seqs) = transport.join().unwrap();
        seqs.extend(take(&mut consumer, 4));
        let expected: Vec<u64> = (1..=3).map(|seq| if owned.contains(&seq) { seq + 10 } else { seq }).collect();
        assert_eq!(seqs, expected);
    });
}

/// The same with a transport that claims two at once: it gets both, one or none of them.
#[test]
fn pull_back_against_a_claim_of_several() {
    model(|| {
        let (mut producer, mut consumer) = ring(4, 3);
        let transport = thread::spawn(move || {
            consumer.expect(2);
            let seqs = take(&mut consumer, 2);
            (consumer, seqs)
        });
        let pulled = producer.pull_back(2).unwrap();
        let owned: Vec<u64> = (0..pulled.len()).map(|place| pulled.get(place).unwrap().0.seq.0).collect();
        assert!(owned.iter().eq([2, 3][2 - owned.len()..].iter()), "the newest, in order: {owned:?}");
        pulled.release();
        let (mut consumer, mut seqs) = transport.join().unwrap();
        seqs.extend(take(&mut consumer, 4));
        assert_eq!(seqs, [1, 2, 3]);
    });
}

/// Pulling all back and reversing the order, while the transport claims all it can.
#[test]
fn reorder_against_claim() {
    model(|| {
        let (mut producer, mut consumer) = ring(4, 2);
        let transport = thread::spawn(move || {
            let seqs = take(&mut consumer, 2);
            (consumer, seqs)
        });
        let mut pulled = producer.pull_back_all().unwrap();
        let turned = pulled.swap(0, 1);
        pulled.release();
        let (mut consumer, mut seqs) = transport.join().unwrap();
        seqs.extend(take(&mut consumer, 4));
        assert_eq!(seqs, if turned { [2, 1] } else { [1, 2] });
    });
}

/// A ring of two slots, wrapped: a slot and its buffer are reused only after the previous packet was sent.
#[test]
fn slots_are_reused_only_after_they_left() {
    model(|| {
        let (mut producer, mut consumer) = ring(2, 0);
        let transport = thread::spawn(move || {
            let seqs = take(&mut consumer, 2);
            (consumer, seqs)
        });
        let sent: Vec<u64> = (1..=3).filter(|seq| producer.enqueue(&adu(*seq), &payload(*seq)).is_ok()).collect();
        let (mut consumer, mut seqs) = transport.join().unwrap();
        seqs.extend(take(&mut consumer, 3));
        assert_eq!(seqs, sent);
    });
}

/// `kern_notify`: after the transport has decided to sleep, it either sees a new packet or is woken.
#[test]
fn no_wake_up_is_lost() {
    model(|| {
        let (mut producer, mut consumer) = ring(2, 0);
        let transport = thread::spawn(move || {
            let awake = consumer.stop_polling();
            (consumer, awake)
        });
        producer.enqueue(&adu(1), &payload(1)).unwrap();
        let notify = producer.needs_notify();
        let (mut consumer, awake) = transport.join().unwrap();
        assert!(awake || notify, "a packet waits, and nobody knows");
        assert_eq!(take(&mut consumer, 2), [1]);
    });
}

/// A packet marked dead while it is claimed has exactly one fate, the actual one.
#[test]
fn mark_dead_against_claim() {
    model(|| {
        let (mut producer, mut consumer) = ring(2, 1);
        let transport = thread::spawn(move || {
            let claimed = consumer.claim(Instant::ZERO).unwrap();
            if let Some(claimed) = claimed {
                consumer.acked(claimed.token);
            }
            claimed.is_some()
        });
        let index = producer.queued().next().map(|queued| queued.index);
        let marked = index.is_some_and(|index| producer.mark_dead(index));
        let sent = transport.join().unwrap();
        assert!(sent || marked);
        let fates: Vec<Fate> = std::iter::from_fn(|| producer.poll_completion()).map(|done| done.fate).collect();
        assert_eq!(fates, [if sent { Fate::Acked } else { Fate::Dropped(DropReason::Withdrawn) }]);
    });
}

/// The consumer's view during rewrites: each packet is seen completely or not at all, and a drop decision about the old
/// packet never affects the new one.
///
/// Limited to three preemptions, unless `LOOM_MAX_PREEMPTIONS` is set: without a bound there are four million
/// executions, which pass as well and take minutes.
#[test]
fn consumer_side_choice_against_rewrite() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    explore(builder, || {
        let (mut producer, mut consumer) = ring(2, 0);
        producer.enqueue(&adu(8), &payload(8)).unwrap();
        let transport = thread::spawn(move || {
            let mut queue = consumer.queued().unwrap();
            if let Some((meta, len)) = queue.get(0) {
                assert_eq!(len as u64, meta.seq.0, "length and number were written together");
                if meta.seq.0 == 8 {
                    queue.drop_at(0, DropReason::Policy);
                }
            }
            let first = consumer.claim(Instant::ZERO).unwrap().map(|claimed| claimed.meta.seq.0);
            (consumer, first)
        });
        let mut pulled = producer.pull_back_all().unwrap();
        let mine = pulled.rewrite(0, &adu(9), &[9; 9]).is_ok();
        pulled.release();
        let (mut consumer, first) = transport.join().unwrap();
        let sent = first.or_else(|| consumer.claim(Instant::ZERO).unwrap().map(|claimed| claimed.meta.seq.0));
        assert!(if mine { sent == Some(9) } else { sent != Some(9) }, "sent {sent:?}, rewritten: {mine}");
    });
}

/// A consumer that looks while packets are changed sees at its next look what they are then, although it reads again only
/// records that it was told of.
#[test]
fn a_look_after_changes_sees_all_of_them() {
    let is_seen = |change: fn(&mut Producer), seen: [Option<u64>; 2]| {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound.get_or_insert(3);
        explore(builder, move || {
            let (mut producer, mut consumer) = ring(4, 2);
            assert_eq!(consumer.queued().unwrap().len(), 2);
            let transport = thread::spawn(move || {
                let _during = consumer.queued().unwrap().len();
                consumer
            });
            change(&mut producer);
            let mut consumer = transport.join().unwrap();
            let queue = consumer.queued().unwrap();
            let seqs: Vec<_> = (0..queue.len()).map(|at| queue.get(at).map(|(meta, _)| meta.seq.0)).collect();
            assert_eq!(seqs, seen);
        });
    };
    let rewrite = |producer: &mut Producer| {
        let mut pulled = producer.pull_back_all().unwrap();
        pulled.set_meta(1, &adu(7)).unwrap();
    };
    is_seen(rewrite, [Some(1), Some(7)]);
    let withdraw = |producer: &mut Producer| {
        let index = producer.queued().next().unwrap().index;
        assert!(producer.mark_dead(index));
    };
    is_seen(withdraw, [None, Some(2)]);
}

/// Fates pass the completion ring intact, also when it wraps.
#[test]
fn completions_against_polling() {
    model(|| {
        let (mut producer, mut consumer) = ring(2, 1);
        let transport = thread::spawn(move || {
            let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
            consumer.acked(claimed.token);
        });
        let mut fates: Vec<_> = producer.poll_completion().into_iter().collect();
        transport.join().unwrap();
        fates.extend(std::iter::from_fn(|| producer.poll_completion()));
        assert!(fates.iter().map(|done| (done.seq.0, done.fate)).eq([(1, Fate::Acked)]));
    });
}

/// An urgent packet, enqueued at the front, is preceded only by packets claimed before, as reported.
#[test]
fn enqueue_front_against_claim() {
    model(|| {
        let (mut producer, mut consumer) = ring(4, 2);
        let transport = thread::spawn(move || {
            let seqs = take(&mut consumer, 3);
            (consumer, seqs)
        });
        let front = producer.enqueue_front(&adu(7), &payload(7)).unwrap();
        let (mut consumer, mut seqs) = transport.join().unwrap();
        seqs.extend(take(&mut consumer, 4));
        let mut expected = vec![1, 2];
        expected.insert(2 - front.overtook, 7);
        assert_eq!(seqs, expected);
    });
}

/// Pulling back twice and appending, while the transport claims all it can: each packet is sent once, in order.
#[test]
fn pull_back_twice_against_claim() {
    model(|| {
        let (mut producer, mut consumer) = ring(4, 1);
        let transport = thread::spawn(move || {
            let seqs = take(&mut consumer, 2);
            (consumer, seqs)
        });
        let mut pulled = producer.pull_back_all().unwrap();
        pulled.push(&adu(2), &payload(2)).unwrap();
        pulled.release();
        producer.pull_back(1).unwrap().release();
        let (mut consumer, mut seqs) = transport.join().unwrap();
        seqs.extend(take(&mut consumer, 4));
        assert_eq!(seqs, [1, 2]);
        assert_eq!((producer.broken(), consumer.violation()), (None, None));
    });
}

/// Two holders let go of one buffer while a third takes buffers: it is free exactly when both have let go, and never
/// given out twice.
#[test]
fn last_references_against_allocation() {
    model(|| {
        let zone = PacketZone::new(PAGE as u32, 2).unwrap();
        let one = zone.buffer().unwrap().freeze();
        let other = one.clone();
        let threads = [thread::spawn(move || drop(one)), thread::spawn(move || drop(other))];
        let first = zone.buffer().expect("the second buffer was never used");
        let second = zone.buffer();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(zone.in_use(), if second.is_ok() { 2 } else { 1 });
        assert_eq!(zone.buffer().is_ok(), second.is_err(), "both have let go: one buffer is free, or was taken");
        drop((first, second));
        assert_eq!(zone.in_use(), 0);
    });
}

/// Buffers that are taken and returned by two threads at once: the list of unused ones loses none, and gives none out
/// twice, also if its head goes and comes back meanwhile.
#[test]
fn allocation_against_allocation() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    explore(builder, || {
        let zone = PacketZone::new(PAGE as u32, 2).unwrap();
        drop([zone.buffer().unwrap(), zone.buffer().unwrap()]);
        let theirs = zone.clone();
        let thread = thread::spawn(move || {
            let (first, second) = (theirs.buffer(), theirs.buffer());
            let took = usize::from(first.is_ok()) + usize::from(second.is_ok());
            drop((first, second));
            took
        });
        let mine = zone.buffer();
        let took = thread.join().unwrap();
        assert!(took >= 1 && mine.is_ok() || took == 2, "{took}");
        drop(mine);
        let all = [zone.buffer(), zone.buffer(), zone.buffer()];
        assert_eq!(all.map(|buffer| buffer.is_ok()), [true, true, false]);
    });
}

/// One buffer in two rings, sent by two transports: each sends what was written, and it is free when both have sent it
/// and their producers have noticed.
#[test]
fn a_buffer_in_two_rings() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(2);
    explore(builder, || {
        let config = Config::new(2).buffer_size(PAGE as u32).buffers(0).completions(2);
        let zone = PacketZone::new(PAGE as u32, 1).unwrap();
        let buffer = zone.buffer().unwrap().freeze();
        let mut producers = Vec::new();
        let mut transports = Vec::new();
        for _ in 0..2 {
            let (producer, mut consumer) = create(&config).unwrap();
            producers.push(producer);
            transports.push(thread::spawn(move || {
                let claimed = consumer.claim(Instant::ZERO).unwrap();
                if let Some(claimed) = claimed {
                    let mut bytes = Vec::new();
                    assert!(consumer.copy_payload(claimed.token, &mut bytes), "the zone is attached by then");
                    assert_eq!(bytes, [0; 8]);
                    consumer.sent(claimed.token);
                }
                claimed.is_some()
            }));
        }
        for producer in &mut producers {
            producer.enqueue_part(&adu(1), &buffer, 0..8).unwrap();
        }
        drop(buffer);
        let sent: Vec<bool> = transports.into_iter().map(|transport| transport.join().unwrap()).collect();
        for producer in &mut producers {
            producer.free_slots();
        }
        assert_eq!(zone.in_use(), usize::from(sent.contains(&false)));
        drop(producers);
        assert_eq!(zone.in_use(), 0, "both sides of both rings are gone");
    });
}
