//! Tests of fates: exactly one per ADU, however late, and without waiting for the application.

use timeous_core::{AduSeq, DropReason, Fate, Instant};
use timeous_ring::{Completion, Config, EnqueueError, create};

use crate::adu;

#[test]
fn an_acknowledgement_finds_its_adu_after_the_ring_has_wrapped() {
    let (mut producer, mut consumer) = create(&Config::new(2)).unwrap();
    let mut tokens = Vec::new();
    let mut indexes = Vec::new();
    for seq in 0..5 {
        indexes.push(producer.enqueue(&adu(seq), b"one at a time").unwrap());
        let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
        consumer.sent(claimed.token);
        tokens.push(claimed.token);
    }
    consumer.acked(tokens[4]);
    consumer.acked(tokens[0]);
    assert!(producer.is_acked(indexes[4]), "its record is still there");
    assert!(!producer.is_acked(indexes[0]), "its record is another's by now");
    for seq in [4, 0] {
        assert_eq!(producer.poll_completion(), Some(Completion::new(AduSeq(seq), Fate::Acked)));
    }
    assert_eq!(producer.poll_completion(), None);
}

#[test]
fn kern_acked_of_a_packet_is_not_that_of_the_next_in_its_slot() {
    let (mut producer, mut consumer) = create(&Config::new(2)).unwrap();
    let first = producer.enqueue(&adu(1), b"").unwrap();
    let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
    consumer.sent(claimed.token);
    producer.enqueue(&adu(2), b"").unwrap();
    let third_slot = consumer.claim(Instant::ZERO).unwrap().unwrap();
    consumer.sent(third_slot.token);
    let reused = producer.enqueue(&adu(3), b"").unwrap();
    consumer.acked(claimed.token);
    assert!(!producer.is_acked(reused));
    assert!(producer.is_acked(first), "not yet claimed again, so that the record could still say it");
}

#[test]
fn unread_fates_are_counted_and_never_overwritten() {
    let (mut producer, mut consumer) = create(&Config::new(4).completions(2)).unwrap();
    for seq in 0..5 {
        producer.enqueue(&adu(seq), b"").unwrap();
        let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
        consumer.acked(claimed.token);
    }
    assert_eq!(producer.completions_lost(), 3);
    let told: Vec<u64> = std::iter::from_fn(|| producer.poll_completion()).map(|done| done.seq.0).collect();
    assert_eq!(told, [0, 1], "the oldest stay");
    producer.enqueue(&adu(9), b"").unwrap();
    let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
    consumer.lost(claimed.token);
    assert_eq!(producer.poll_completion(), Some(Completion::new(AduSeq(9), Fate::Lost)));
}

#[test]
fn a_packet_without_word_for_a_thousand_packets_counts_as_lost() {
    let (mut producer, mut consumer) = create(&Config::new(2).completions(4096)).unwrap();
    for seq in 0..1500 {
        producer.enqueue(&adu(seq), b"").unwrap();
        let claimed = consumer.claim(Instant::ZERO).unwrap().unwrap();
        consumer.sent(claimed.token);
    }
    assert_eq!(consumer.unsettled_len(), 1024);
    let lost: Vec<u64> = std::iter::from_fn(|| producer.poll_completion()).map(|done| done.seq.0).collect();
    assert!(lost.into_iter().eq(0..1500 - 1024));
    consumer.acked(3);
    assert_eq!(producer.poll_completion(), None, "it has had its fate");
}

#[test]
fn withdrawn_in_place_and_written_over() {
    let (mut producer, mut consumer) = create(&Config::new(4)).unwrap();
    producer.enqueue(&adu(1), b"old").unwrap();
    producer.enqueue(&adu(2), b"same number").unwrap();
    let mut pulled = producer.pull_back_all().unwrap();
    pulled.rewrite(0, &adu(10), b"new").unwrap();
    pulled.rewrite(1, &adu(2), b"other bytes").unwrap();
    assert_eq!(pulled.rewrite(2, &adu(3), b""), Err(EnqueueError::NoSuchPlace { index: 2, len: 2 }));
    pulled.release();
    let withdrawn = Fate::Dropped(DropReason::Withdrawn);
    assert_eq!(producer.poll_completion(), Some(Completion::new(AduSeq(1), withdrawn)));
    assert_eq!(producer.poll_completion(), None, "a new edition of an ADU is still that ADU");
    assert_eq!(producer.enqueued(), 3, "two places, and one that was written over");
    let mut bytes = Vec::new();
    while let Some(claimed) = consumer.claim(Instant::ZERO).unwrap() {
        consumer.copy_payload(claimed.token, &mut bytes);
    }
    assert_eq!(bytes, b"newother bytes");
}

#[test]
fn a_forgotten_pull_back_is_released_by_the_next_enqueue() {
    let (mut producer, mut consumer) = create(&Config::new(4)).unwrap();
    producer.enqueue(&adu(1), b"").unwrap();
    std::mem::forget(producer.pull_back_all().unwrap());
    assert!(!consumer.has_queued());
    producer.enqueue(&adu(2), b"").unwrap();
    assert_eq!(consumer.queued_len(), Ok(2));
    assert_eq!((producer.broken(), consumer.violation()), (None, None));
}
