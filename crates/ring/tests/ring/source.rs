//! Tests of the ring as a transport's source: late choice, deadlines, closing.

use std::sync::{Arc, Mutex};

use timeous_core::LateChoice;
use timeous_core::{AduMeta, AduSeq, AduSource, Arrived, DropReason, Duration, Fate, Instant, PathState, Queue};
use timeous_ring::{Config, EnqueueError, Producer, RingSource, create};

use crate::adu;

fn fates(producer: &mut Producer) -> Vec<(u64, Fate)> {
    std::iter::from_fn(|| producer.poll_completion()).map(|done| (done.seq.0, done.fate)).collect()
}

fn pull(source: &mut RingSource, now: Instant) -> Option<(u64, Vec<u8>)> {
    let mut packet = Vec::new();
    let pulled = source.pull(now, &PathState::default(), 1000, &mut packet)?;
    assert_eq!(pulled.len, packet.len());
    source.sent(pulled.token);
    Some((pulled.meta.seq.0, packet))
}

/// Policy that keeps the newest packet.
struct Newest;

impl LateChoice for Newest {
    fn choose(&mut self, _: Instant, _: &PathState, queue: &mut dyn Queue) {
        for place in 0..queue.len() - 1 {
            queue.drop_at(place, DropReason::Policy);
        }
    }
}

#[test]
fn nothing_leaves_after_its_deadline_or_larger_than_the_room() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for (seq, deadline, len) in [(0, Some(10), 5), (1, Some(20), 5), (2, None, 1001), (3, None, 1000)] {
        let meta = AduMeta { seq: AduSeq(seq), deadline: deadline.map(at), ..AduMeta::default() };
        producer.enqueue(&meta, &vec![7; len]).unwrap();
    }
    let mut source = RingSource::new(consumer);
    assert!(source.has_queued(at(20)));
    assert_eq!(pull(&mut source, at(20)).unwrap().0, 1, "an ADU may leave at its deadline");
    assert_eq!(pull(&mut source, at(20)).unwrap(), (3, vec![7; 1000]));
    assert_eq!(pull(&mut source, at(20)), None);
    let dropped = |reason| Fate::Dropped(reason);
    assert_eq!(fates(&mut producer), [(0, dropped(DropReason::Expired)), (2, dropped(DropReason::TooLarge))]);
}

#[test]
fn what_is_too_long_beside_another_stays_where_it_is() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::new(consumer);
    for (seq, len) in [(1, 300), (2, 300), (3, 900)] {
        producer.enqueue(&adu(seq), &vec![7; len]).unwrap();
    }
    let beside = |source: &mut RingSource, room| {
        let mut packet = Vec::new();
        let pulled = source.pull_beside(Instant::ZERO, &PathState::default(), room, &mut packet)?;
        source.sent(pulled.token);
        Some((pulled.meta.seq.0, packet.len()))
    };
    assert_eq!(pull(&mut source, Instant::ZERO).unwrap().0, 1);
    assert_eq!(beside(&mut source, 700), Some((2, 300)));
    assert_eq!(beside(&mut source, 400), None);
    assert_eq!(pull(&mut source, Instant::ZERO).unwrap().0, 3);
    assert_eq!(beside(&mut source, 400), None, "nothing is queued");
    assert_eq!(fates(&mut producer), []);
}

#[test]
fn the_choice_runs_at_the_instant_of_sending() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::with_choice(consumer, Box::new(Newest));
    producer.enqueue(&adu(1), b"one").unwrap();
    assert_eq!(pull(&mut source, Instant::ZERO), Some((1, b"one".to_vec())));
    for seq in 2..5 {
        producer.enqueue(&adu(seq), b"more").unwrap();
    }
    assert_eq!((source.queued_len(), source.queued_bytes()), (3, 12));
    assert_eq!(pull(&mut source, Instant::ZERO).unwrap().0, 4);
    let policy = Fate::Dropped(DropReason::Policy);
    assert_eq!(fates(&mut producer), [(2, policy), (3, policy)]);
    assert_eq!((source.queued_len(), source.queued_bytes()), (0, 0));
}

/// Policy that records useless ADUs, though they arrived.
struct Misses(Arc<Mutex<Vec<u64>>>);

impl LateChoice for Misses {
    fn choose(&mut self, _: Instant, _: &PathState, _: &mut dyn Queue) {}

    fn on_missed(&mut self, meta: &AduMeta) {
        self.0.lock().unwrap().push(meta.seq.0);
    }
}

#[test]
fn the_choice_hears_what_arrived_after_its_deadline() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let missed = Arc::default();
    let mut source = RingSource::with_choice(consumer, Box::new(Misses(Arc::clone(&missed))));
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for seq in 0..3 {
        let meta = AduMeta { seq: AduSeq(seq), deadline: (seq < 2).then_some(at(20)), ..AduMeta::default() };
        producer.enqueue(&meta, b"frame").unwrap();
    }
    let mut packet = Vec::new();
    for arrival in [at(20), at(21), at(22)] {
        let pulled = source.pull(at(1), &PathState::default(), 1000, &mut packet).unwrap();
        source.sent(pulled.token);
        source.arrived(pulled.token, arrival, None);
        source.arrived(pulled.token, at(50), None);
    }
    assert_eq!(*missed.lock().unwrap(), [1], "the first time that it comes counts, if it has a deadline");
    assert_eq!(fates(&mut producer), [(0, Fate::Acked), (1, Fate::Acked), (2, Fate::Acked)], "they arrived");
}

#[test]
fn a_completion_has_the_arrival_that_an_acknowledgement_told() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::new(consumer);
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    let told = [None, Some(Arrived { predicted: at(19), actual: at(23) })];
    for (seq, &exactly) in (0..).zip(&told) {
        producer.enqueue(&adu(seq), b"frame").unwrap();
        let pulled = source.pull(at(1), &PathState::default(), 1000, &mut Vec::new()).unwrap();
        source.sent(pulled.token);
        source.arrived(pulled.token, at(20), exactly);
    }
    let heard: Vec<_> = std::iter::from_fn(|| producer.poll_completion()).map(|done| done.arrived).collect();
    assert_eq!(heard, told);
}

#[test]
fn what_the_choice_gave_up_lives_on_if_the_application_rewrites_it() {
    let (mut producer, mut consumer) = create(&Config::new(8)).unwrap();
    for seq in 0..2 {
        producer.enqueue(&adu(seq), b"old").unwrap();
    }
    let mut queue = consumer.queued().unwrap();
    queue.drop_at(0, DropReason::Policy);
    queue.drop_at(1, DropReason::Policy);
    assert_eq!((queue.get(0), queue.len()), (None, 2));
    producer.pull_back(1).unwrap().rewrite(0, &adu(1), b"new").unwrap();
    let mut source = RingSource::new(consumer);
    assert_eq!(pull(&mut source, Instant::ZERO), Some((1, b"new".to_vec())));
    assert_eq!(fates(&mut producer), [(0, Fate::Dropped(DropReason::Policy))]);
}

#[test]
fn closing_gives_everything_queued_its_fate_and_refuses_more() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::new(consumer);
    for seq in 0..4 {
        producer.enqueue(&adu(seq), b"payload").unwrap();
    }
    let mut packet = Vec::new();
    let sent = source.pull(Instant::ZERO, &PathState::default(), 1000, &mut packet).unwrap();
    source.sent(sent.token);
    let unsent = source.pull(Instant::ZERO, &PathState::default(), 1000, &mut packet).unwrap();
    let mut pulled = producer.pull_back(1).unwrap();
    pulled.withdraw(5);
    source.close();
    pulled.release();
    assert!(producer.is_closed());
    assert_eq!(producer.enqueue(&adu(9), b"late"), Err(EnqueueError::Closed));
    assert!(!source.has_queued(Instant::ZERO));
    let closed = Fate::Dropped(DropReason::Closed);
    assert_eq!(fates(&mut producer), [(2, closed), (3, closed)]);
    source.settle_all();
    assert_eq!(fates(&mut producer), [(0, Fate::Lost), (1, closed)]);
    source.acked(sent.token);
    source.dropped(unsent.token, DropReason::Expired);
    assert_eq!(fates(&mut producer), []);
}

#[test]
fn the_consumer_asks_to_be_woken_once() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::new(consumer);
    assert!(!source.stop_polling());
    producer.enqueue(&adu(1), b"").unwrap();
    assert!(producer.needs_notify());
    producer.enqueue(&adu(2), b"").unwrap();
    assert!(!producer.needs_notify(), "it was told");
    assert!(source.stop_polling(), "there is work: stay");
    assert!(!producer.needs_notify());
}

#[test]
fn the_newest_can_go_first() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::new(consumer);
    for seq in 0..3 {
        producer.enqueue(&adu(seq), b"queued").unwrap();
    }
    let front = producer.enqueue_front(&adu(7), b"urgent").unwrap();
    assert!(front.made_it());
    assert_eq!(front.overtook, 3);
    let order: Vec<u64> = std::iter::from_fn(|| pull(&mut source, Instant::ZERO)).map(|(seq, _)| seq).collect();
    assert_eq!(order, [7, 0, 1, 2]);
}

#[test]
fn what_expires_while_nothing_may_be_sent_frees_its_places() {
    let (mut producer, consumer) = create(&Config::new(4)).unwrap();
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for (seq, deadline) in [(0, 10), (1, 20), (2, 30)] {
        let meta = AduMeta { seq: AduSeq(seq), deadline: Some(at(deadline)), ..AduMeta::default() };
        producer.enqueue(&meta, b"x").unwrap();
    }
    assert_eq!(producer.enqueue(&AduMeta::default(), b"y"), Err(EnqueueError::Full));
    let mut source = RingSource::new(consumer);
    source.pass_expired(at(21));
    let expired = Fate::Dropped(DropReason::Expired);
    assert_eq!(fates(&mut producer), [(0, expired), (1, expired)]);
    assert_eq!(producer.free_slots(), 2);
    assert_eq!(pull(&mut source, at(22)), Some((2, b"x".to_vec())));
}

#[test]
fn what_is_expected_is_taken_together_and_nothing_beyond() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let at = |millis| Instant::ZERO + Duration::from_millis(millis);
    for (seq, deadline) in [(0, None), (1, Some(10)), (2, None), (3, None), (4, None)] {
        let meta = AduMeta { seq: AduSeq(seq), deadline: deadline.map(at), ..AduMeta::default() };
        producer.enqueue(&meta, b"x").unwrap();
    }
    let mut source = RingSource::new(consumer);
    source.will_pull(3);
    assert_eq!(pull(&mut source, at(0)).unwrap().0, 0);
    assert_eq!(producer.queued_len(), 4, "a driver that has room for one takes one");
    source.has_room_for(2);
    source.will_pull(3);
    // Two packets are claimed and one is pulled; the other has expired when its turn comes.
    assert_eq!(pull(&mut source, at(0)).unwrap().0, 1);
    assert_eq!(source.queued_len(), 3, "a choice sees what was taken and not pulled");
    let pulled = producer.pull_back_all().unwrap();
    assert_eq!(pulled.len(), 2, "the last word is over for two of them");
    pulled.release();
    assert!(source.has_queued(at(20)));
    source.has_room_for(1);
    assert!((2..5).map(|_| pull(&mut source, at(20)).unwrap().0).eq(2..5));
    assert_eq!(pull(&mut source, at(20)), None);
}

#[test]
fn passing_what_has_expired_takes_nothing_else() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let late = Instant::ZERO + Duration::from_millis(10);
    let mut source = RingSource::new(consumer);
    source.has_room_for(8);
    // More packets are expected than queued.
    producer.enqueue(&adu(0), b"x").unwrap();
    source.will_pull(8);
    assert_eq!(pull(&mut source, Instant::ZERO).unwrap().0, 0);
    for seq in 1..4 {
        let meta = AduMeta { seq: AduSeq(seq), deadline: (seq == 1).then_some(late), ..AduMeta::default() };
        producer.enqueue(&meta, b"x").unwrap();
    }
    source.pass_expired(late + Duration::from_millis(1));
    assert_eq!(producer.pull_back_all().unwrap().len(), 2, "the last word on the others is still the application's");
}

#[test]
fn what_was_taken_and_not_pulled_keeps_its_deadline_and_ends_with_the_ring() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let late = Instant::ZERO + Duration::from_millis(10);
    for seq in 0..4 {
        let meta = AduMeta { seq: AduSeq(seq), deadline: (seq == 1).then_some(late), ..AduMeta::default() };
        producer.enqueue(&meta, b"x").unwrap();
    }
    let mut source = RingSource::new(consumer);
    source.has_room_for(4);
    source.will_pull(4);
    assert_eq!(pull(&mut source, Instant::ZERO).unwrap().0, 0);
    assert_eq!(pull(&mut source, late + Duration::from_millis(1)).unwrap().0, 2);
    source.close();
    source.settle_all();
    let expected = [(1, DropReason::Expired), (3, DropReason::Closed)].map(|(seq, why)| (seq, Fate::Dropped(why)));
    let fates = fates(&mut producer);
    assert!(expected.iter().all(|one| fates.contains(one)), "{fates:?}");
}

#[test]
fn what_is_written_in_place_is_what_leaves() {
    let (mut producer, consumer) = create(&Config::new(4)).unwrap();
    let mut source = RingSource::new(consumer);
    for round in 0..20_u8 {
        producer.enqueue_with(&adu(round.into()), 3, |bytes| bytes.fill(round)).unwrap();
        assert_eq!(pull(&mut source, Instant::ZERO).unwrap(), (round.into(), vec![round; 3]));
    }
    let refused = producer.enqueue_with(&adu(0), 5_000, |_| unreachable!("too large to be written"));
    assert!(matches!(refused, Err(EnqueueError::TooLarge { .. })));
    for _ in 0..10 {
        let panics = || producer.enqueue_with(&adu(0), 3, |_| panic!("the application's own"));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
    }
    producer.enqueue_with(&adu(7), 3, |bytes| bytes.fill(7)).expect("its buffers are free again");
    assert_eq!(pull(&mut source, Instant::ZERO).unwrap().0, 7);
}

/// Policy that drops everything.
struct Nothing;

impl LateChoice for Nothing {
    fn choose(&mut self, _: Instant, _: &PathState, queue: &mut dyn Queue) {
        for place in 0..queue.len() {
            queue.drop_at(place, DropReason::Policy);
        }
    }
}

#[test]
fn a_transport_that_went_away_empty_handed_is_woken_for_what_came_since() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::with_choice(consumer, Box::new(Nothing));
    let now = Instant::ZERO;
    assert!(!source.has_queued(now));
    producer.enqueue(&adu(1), b"one").unwrap();
    assert!(source.stop_polling(), "it asked before this came");
    assert!(!source.stop_polling(), "once is enough");
    assert!(source.has_queued(now) && pull(&mut source, now).is_none());
    producer.enqueue(&adu(2), b"two").unwrap();
    assert!(!producer.needs_notify(), "nobody has asked to be told");
    assert!(source.stop_polling(), "it was refused before this came");
    assert!(source.has_queued(now) && !source.stop_polling(), "it knows, and waits for its turn");
    assert!(pull(&mut source, now).is_none() && !source.stop_polling());
    producer.enqueue(&adu(3), b"three").unwrap();
    assert!(producer.needs_notify(), "there was nothing, and it had asked");
}

/// Policy that holds the queue back while bytes are in flight.
struct Holding;

impl LateChoice for Holding {
    fn choose(&mut self, _: Instant, _: &PathState, _: &mut dyn Queue) {}

    fn holds(&self) -> bool {
        true
    }
}

#[test]
fn what_is_held_stays_queued_while_anything_is_outstanding_and_nobody_has_to_wake_for_it() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::with_choice(consumer, Box::new(Holding));
    let now = Instant::ZERO;
    producer.enqueue(&adu(1), b"one").unwrap();
    let path = PathState { outstanding: 1, ..PathState::default() };
    assert!(source.has_queued(now));
    assert_eq!(source.pull(now, &path, 1000, &mut Vec::new()), None);
    assert!(!source.stop_polling() && !producer.needs_notify(), "an acknowledgement will come");
    assert!(source.has_queued(now));
    assert_eq!(pull(&mut source, now), Some((1, b"one".to_vec())));
}

#[test]
fn what_is_held_leaves_beside_nothing_either() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let mut source = RingSource::with_choice(consumer, Box::new(Holding));
    producer.enqueue(&adu(1), b"one").unwrap();
    let mut beside = |outstanding| {
        let path = PathState { outstanding, ..PathState::default() };
        source.pull_beside(Instant::ZERO, &path, 400, &mut Vec::new()).map(|pulled| pulled.meta.seq.0)
    };
    assert_eq!((beside(1), beside(0)), (None, Some(1)));
}

/// Policy that counts its choices.
struct Counting(Arc<Mutex<u32>>);

impl LateChoice for Counting {
    fn choose(&mut self, _: Instant, _: &PathState, _: &mut dyn Queue) {
        *self.0.lock().unwrap() += 1;
    }
}

#[test]
fn what_leaves_beside_another_is_chosen_anew_only_if_a_fate_became_known_since() {
    let (mut producer, consumer) = create(&Config::new(8)).unwrap();
    let choices = Arc::new(Mutex::new(0));
    let mut source = RingSource::with_choice(consumer, Box::new(Counting(choices.clone())));
    for n in 0..4 {
        producer.enqueue(&adu(n), b"adu").unwrap();
    }
    let (now, path) = (Instant::ZERO, PathState::default());
    let first = source.pull(now, &path, 400, &mut Vec::new()).unwrap();
    assert!(source.pull_beside(now, &path, 400, &mut Vec::new()).is_some());
    assert_eq!(*choices.lock().unwrap(), 1);
    source.sent(first.token);
    source.lost(first.token);
    assert!(source.pull_beside(now, &path, 400, &mut Vec::new()).is_some());
    assert_eq!(*choices.lock().unwrap(), 2, "what refers to the lost one may go");
    assert!(source.pull_beside(now + Duration::from_millis(1), &path, 400, &mut Vec::new()).is_some());
    assert_eq!(*choices.lock().unwrap(), 3);
}
