//! The paper's six figures (Lai & Kohler §3) as tests. Their ring is drawn empty, then holds packets 0 to 6.

use timeous_core::{AduMeta, AduSeq, DropReason, Fate, Instant, Queue};

use crate::create::create_at;
use crate::index::Packed;
use crate::layout::Config;
use crate::sync::Ordering;
use crate::{Completion, Consumer, EnqueueError, Index, Producer};

const SLOTS: u32 = 8;
/// One origin at zero, and one where the low 32 bits of the indexes wrap during the test.
const ORIGINS: [u64; 2] = [0, u32::MAX as u64 - 3];

/// The indexes relative to the origin: `[dev_i, kern_i, umod_i, user_i]`.
fn indexes(producer: &Producer, origin: u64) -> [u64; 4] {
    let shared = &producer.shared;
    let packed = Packed::from_bits(shared.packed().load(Ordering::Relaxed));
    let low = |index: u32| u64::from(index.wrapping_sub(origin as u32));
    let whole = |index: u64| index - origin;
    let (dev, user) = (shared.dev_i().load(Ordering::Relaxed), shared.user_i().load(Ordering::Relaxed));
    [whole(dev), low(packed.kern), low(packed.umod), whole(user)]
}

fn adu(seq: u64) -> AduMeta {
    AduMeta { seq: AduSeq(seq), ..AduMeta::default() }
}

/// Figure 2, the start of the following ones.
fn with_seven(origin: u64) -> (Producer, Consumer) {
    let (mut producer, consumer) = create_at(&Config::new(SLOTS), origin).unwrap();
    for seq in 0..7 {
        let index = producer.enqueue(&adu(seq), &[seq as u8; 9]).unwrap();
        assert_eq!(index, Index(origin + seq));
    }
    (producer, consumer)
}

fn send_one(consumer: &mut Consumer) -> Option<u64> {
    let claimed = consumer.claim(Instant::ZERO).unwrap()?;
    let mut payload = Vec::new();
    assert!(consumer.copy_payload(claimed.token, &mut payload));
    assert_eq!(payload, [claimed.meta.seq.0 as u8; 9]);
    consumer.sent(claimed.token);
    Some(claimed.meta.seq.0)
}

#[test]
fn figure_1_an_empty_ring() {
    for origin in ORIGINS {
        let (mut producer, mut consumer) = create_at(&Config::new(SLOTS), origin).unwrap();
        assert_eq!(indexes(&producer, origin), [0, 0, 0, 0]);
        assert_eq!(producer.free_slots(), 7, "N-1 packets in N slots");
        assert!(!consumer.has_queued());
        assert_eq!(consumer.claim(Instant::ZERO), Ok(None));
    }
}

#[test]
fn figure_2_user_adds_packets() {
    for origin in ORIGINS {
        let (mut producer, mut consumer) = with_seven(origin);
        assert_eq!(indexes(&producer, origin), [0, 0, 7, 7]);
        assert_eq!(producer.enqueue(&adu(7), b"one too many"), Err(EnqueueError::Full));
        assert_eq!(consumer.queued_len(), Ok(7), "packets 0-6 are owned by the kernel");
        assert!(producer.queued().map(|queued| queued.meta.seq.0).eq(0..7));
    }
}

#[test]
fn figure_3_kernel_sends_two() {
    for origin in ORIGINS {
        let (mut producer, mut consumer) = with_seven(origin);
        let first = consumer.claim(Instant::ZERO).unwrap().unwrap();
        let second = consumer.claim(Instant::ZERO).unwrap().unwrap();
        assert_eq!(indexes(&producer, origin), [0, 2, 7, 7]);
        consumer.sent(second.token);
        assert_eq!(indexes(&producer, origin)[0], 0, "dev_i waits for the older one");
        consumer.sent(first.token);
        assert_eq!(indexes(&producer, origin), [2, 2, 7, 7]);
        assert_eq!(producer.free_slots(), 2);
    }
}

#[test]
fn figure_4_user_marks_packets_dead_without_moving_an_index() {
    for origin in ORIGINS {
        let (mut producer, mut consumer) = with_seven(origin);
        assert_eq!([send_one(&mut consumer), send_one(&mut consumer)], [Some(0), Some(1)]);
        let before = indexes(&producer, origin);
        let marked = [1, 3, 5].map(|n| producer.mark_dead(Index(origin + n)));
        assert_eq!(marked, [false, true, true], "marking packet 1 is safe and has no effect");
        assert_eq!(indexes(&producer, origin), before);
        let rest: Vec<u64> = std::iter::from_fn(|| send_one(&mut consumer)).collect();
        assert_eq!(rest, [2, 4, 6]);
        let withdrawn = Fate::Dropped(DropReason::Withdrawn);
        let fates: Vec<Completion> = std::iter::from_fn(|| producer.poll_completion()).collect();
        assert_eq!(fates, [3, 5].map(|n| Completion::new(AduSeq(n), withdrawn)));
    }
}

#[test]
fn figure_5_user_pulls_back_four() {
    for origin in ORIGINS {
        let (mut producer, mut consumer) = with_seven(origin);
        send_one(&mut consumer);
        send_one(&mut consumer);
        let pulled = producer.pull_back(4).unwrap();
        assert_eq!(pulled.first() - origin, 3);
        assert!((0..4).map(|place| pulled.get(place).unwrap().0.seq.0).eq(3..7), "packets 3-6 are safe to modify");
        assert_eq!(send_one(&mut consumer), Some(2));
        assert_eq!(send_one(&mut consumer), None, "the kernel stops at umod_i");
        pulled.release();
        assert_eq!(indexes(&producer, origin), [3, 3, 7, 7]);
        assert_eq!(send_one(&mut consumer), Some(3));
    }
}

#[test]
fn figure_6_kernel_moves_while_user_pulls_back() {
    for origin in ORIGINS {
        let (mut producer, mut consumer) = with_seven(origin);
        send_one(&mut consumer);
        send_one(&mut consumer);
        // The user has read `kern_i` as 2 and wants 3-6; before its attempt the kernel takes 2, 3 and 4.
        let seen = producer.shared.packed().load(Ordering::Acquire);
        for seq in 2..5 {
            assert_eq!(send_one(&mut consumer), Some(seq));
        }
        let newer = producer.try_pull_back(seen, origin + 3).expect_err("the kernel has moved kern_i");
        assert_eq!(Packed::from_bits(newer), Packed::new(origin + 5, origin + 7));
        assert_eq!(indexes(&producer, origin), [5, 5, 7, 7], "the failed attempt left no trace");

        let mut pulled = producer.pull_back(4).unwrap();
        assert_eq!(pulled.first() - origin, 5, "only packets 5 and 6 are safe to modify");
        assert_eq!(pulled.len(), 2);
        pulled.swap(0, 1);
        pulled.release();
        assert_eq!([send_one(&mut consumer), send_one(&mut consumer)], [Some(6), Some(5)]);
    }
}
