//! Test of a packet claimed in advance.

use timeous_core::AduSeq;

use super::*;

#[test]
fn what_was_claimed_by_mistake_is_the_next_to_be_given_out() {
    let (mut producer, mut consumer) = crate::create(&crate::Config::new(8)).unwrap();
    for seq in 0..2 {
        producer.enqueue(&AduMeta { seq: AduSeq(seq), ..AduMeta::default() }, b"x").unwrap();
    }
    consumer.held = consumer.claim(Instant::ZERO).unwrap();
    assert!(consumer.has_queued());
    consumer.pass_expired(Instant::FAR_FUTURE).unwrap();
    let order: Vec<_> = std::iter::from_fn(|| consumer.claim(Instant::ZERO).unwrap()).map(|c| c.meta.seq.0).collect();
    assert_eq!(order, [0, 1]);
    assert!(!consumer.has_queued());
}
