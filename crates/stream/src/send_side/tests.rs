//! Timelines of a sending side over a small ring.

use timeous_core::{AduMeta, AduSeq, Fate};
use timeous_ring::{Producer, create};

use super::*;
use crate::settings::ring_settings;

const LATER: Duration = Duration::from_millis(10);

fn open(repair: Option<Priority>) -> (Producer, SendSide) {
    let (producer, consumer) = create(&ring_settings(8, 1_400)).unwrap();
    (producer, SendSide::new(consumer, None, repair))
}

fn offer(producer: &mut Producer, seq: u64, deadline: Option<Instant>) {
    let meta = AduMeta { seq: AduSeq(seq), deadline, ..AduMeta::default() };
    producer.enqueue(&meta, b"payload").unwrap();
}

fn send(sending: &mut SendSide, now: Instant) -> u64 {
    let mut packet = Vec::new();
    let pulled = sending.source().pull(now, &PathState::default(), 1_400, &mut packet).unwrap();
    sending.sent(pulled.token);
    pulled.token
}

fn fates(producer: &mut Producer) -> Vec<(u64, Fate)> {
    std::iter::from_fn(|| producer.poll_completion()).map(|done| (done.seq.0, done.fate)).collect()
}

#[test]
fn the_queue_is_scanned_for_expired_data_once_per_interval() {
    let (mut producer, mut sending) = open(None);
    let start = Instant::ZERO + SCAN_INTERVAL;
    assert_eq!(sending.poll_timeout(), None, "nothing is queued");
    offer(&mut producer, 0, Some(start));
    assert!(!sending.drop_expired(start));
    assert_eq!(sending.poll_timeout(), Some(start + SCAN_INTERVAL));
    assert!(!sending.drop_expired(start + LATER), "the next scan is not yet due");
    assert!(sending.drop_expired(start + SCAN_INTERVAL));
    assert!(sending.take_news());
    assert_eq!(fates(&mut producer), [(0, Fate::Dropped(DropReason::Expired))]);
    assert_eq!(sending.poll_timeout(), None);
}

#[test]
fn a_close_waits_for_the_fates_of_sent_data() {
    let (mut producer, mut sending) = open(None);
    offer(&mut producer, 0, None);
    sending.finish();
    assert!(!sending.take_finished(Instant::ZERO));
    let token = send(&mut sending, Instant::ZERO);
    assert!(!sending.take_finished(Instant::ZERO));
    sending.handle_event(&Event::<()>::Acked { token, at: Instant::ZERO, exactly: None });
    assert!(sending.take_finished(Instant::ZERO));
    assert!(!sending.take_finished(Instant::ZERO), "it is told once");
}

#[test]
fn only_data_kept_for_retransmission_outlives_a_carrier() {
    for (repair, fate) in [(None, Some((0, Fate::Lost))), (Some(Priority::default()), None)] {
        let (mut producer, mut sending) = open(repair);
        offer(&mut producer, 0, None);
        send(&mut sending, Instant::ZERO);
        sending.carrier_gone();
        assert_eq!(fates(&mut producer).first().copied(), fate);
        assert_eq!(sending.source().has_queued(Instant::ZERO), fate.is_none());
    }
}
