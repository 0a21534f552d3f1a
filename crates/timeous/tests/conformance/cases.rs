//! Test cases of the guarantees that every stream gives.

use std::collections::BTreeSet;

use timeous::core::{DropReason, Duration, Fate, Queue};
use timeous::{CloseReason, Options, Status};

use crate::scene::{MS, Scene};
use crate::stage::{Refusal, Stage};

/// A payload that says which it is.
fn numbered(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = n.to_be_bytes().to_vec();
    bytes.resize(len, n as u8);
    bytes
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(*bytes.first_chunk().unwrap())
}

/// Sends `count` ADUs of `len` bytes, one each `every`.
fn send_paced(stage: &mut impl Stage, count: u64, len: usize, every: Duration) {
    for n in 0..count {
        assert_eq!(stage.send(&numbered(n, len), None), Ok(n));
        stage.pass(every);
    }
}

pub(crate) fn a_call_is_answered_and_both_ends_are_open<S: Stage>() {
    let mut stage = S::open(&Scene::new(1_000, MS * 500));
    stage.wait_until("both are open", |stage| (stage.sending(), stage.receiving()) == (Status::Open, Status::Open));
    assert!(stage.received().is_empty() && stage.fates().is_empty());
}

pub(crate) fn nobody_there_is_a_timeout<S: Stage>() {
    let scene = Scene { listens: false, ..Scene::new(1_000, MS * 500).patient_for(MS * 1_000) };
    assert_eq!(S::set(&scene).call(scene.asks_for), Err(CloseReason::Timeout));
}

pub(crate) fn another_service_is_refused_and_the_listener_waits_on<S: Stage>() {
    let scene = Scene { asks_for: *b"GAME", ..Scene::new(1_000, MS * 5_000) };
    let mut stage = S::set(&scene);
    let refused = stage.call(scene.asks_for);
    assert!(matches!(refused, Err(CloseReason::Reset(_))), "{refused:?}");
    assert_eq!(stage.call(scene.options.service), Ok(()));
    stage.send(b"to the right one", None).unwrap();
    stage.wait_until("it comes", |stage| stage.received() == [b"to the right one"]);
}

pub(crate) fn what_is_sent_arrives_as_it_was_and_in_order<S: Stage>() {
    const LEN: usize = 500;
    let mut stage = S::open(&Scene::new(2_000, MS * 20_000));
    send_paced(&mut stage, 100, LEN, MS * 10);
    let fates = stage.all_fates(100);
    assert!(fates.values().all(|&fate| fate == Fate::Acked), "{fates:?}");
    let expected: Vec<_> = (0..100).map(|n| numbered(n, LEN)).collect();
    assert_eq!(stage.received(), expected);

    for times in stage.times().into_iter().flatten() {
        assert_eq!(times.left, [times.offered], "nothing holds it back");
        // Headers of IP, UDP and DCCP, and up to 40 bytes of options, at 4 µs a byte; and the way.
        let under_way = times.arrived.unwrap() - times.offered;
        let least = MS * 20 + Duration::from_micros(4) * (LEN as u64 + 20 + 8 + 16);
        assert!((least..=least + Duration::from_micros(4) * 48).contains(&under_way), "{under_way:?}");
    }
}

pub(crate) fn what_is_lost_or_given_up_has_one_true_fate<S: Stage>() {
    let mut stage = S::open(&Scene::new(1_500, MS * 300).lossy(0.04));
    send_paced(&mut stage, 300, 500, MS * 4);
    let fates = stage.all_fates(300);
    stage.finish();
    stage.wait_until("the receiver has heard the end", |stage| stage.receiving() != Status::Open);
    let came: BTreeSet<u64> = stage.received().iter().map(|bytes| number(bytes)).collect();
    for (n, fate) in &fates {
        match fate {
            Fate::Acked => assert!(came.contains(n), "{n} is acked and has not come"),
            Fate::Dropped(reason) => assert!(!came.contains(n), "{n} was dropped ({reason:?}) and has come"),
            // Its acknowledgement may be what was lost.
            Fate::Lost => {}
        }
    }
    assert!(came.len() > 100, "of 300, {} came", came.len());

    if let Some(times) = stage.times() {
        for (n, times) in times.iter().enumerate() {
            assert_eq!(times.arrived.is_some(), came.contains(&(n as u64)));
            assert!(times.left.iter().all(|&left| times.deadline.is_none_or(|deadline| left <= deadline)), "{times:?}");
        }
        assert!(times.iter().any(|times| times.left.len() > 1), "something was repaired");
    }
}

pub(crate) fn what_was_pulled_back_is_withdrawn_or_leaves_as_it_is_now<S: Stage>() {
    // Twelve seconds' worth at once.
    let mut stage = S::open(&Scene::new(200, MS * 60_000));
    for n in 0..300 {
        stage.send(&numbered(n, 1_000), None).unwrap();
    }
    stage.pass(MS * 200);
    let (withdrawn, rewritten) = stage.with_ring(|ring| {
        let (mut withdrawn, mut rewritten) = (BTreeSet::new(), BTreeSet::new());
        let mut pulled = ring.pull_back_all().unwrap();
        for place in 0..pulled.places() {
            let meta = pulled.queued(place).unwrap().meta;
            if meta.seq.0 % 3 == 0 {
                pulled.rewrite(place, &meta, &numbered(meta.seq.0, 10)).unwrap();
                rewritten.insert(meta.seq.0);
            } else {
                pulled.withdraw(place);
                withdrawn.insert(meta.seq.0);
            }
        }
        (withdrawn, rewritten)
    });
    assert!(withdrawn.len() > 50 && rewritten.len() > 25, "{} {}", withdrawn.len(), rewritten.len());
    let pulled_at = stage.now();
    let fates = stage.all_fates(300);
    for n in &withdrawn {
        assert_eq!(fates[n], Fate::Dropped(DropReason::Withdrawn), "{n}");
    }
    for bytes in stage.received() {
        let n = number(bytes);
        assert!(!withdrawn.contains(&n), "{n} was withdrawn and has come");
        assert_eq!(bytes.len(), if rewritten.contains(&n) { 10 } else { 1_000 }, "{n}");
    }
    for n in &rewritten {
        assert!(matches!(fates[n], Fate::Acked | Fate::Lost), "{n}: {:?}", fates[n]);
    }

    let withdrawn_times = stage.times().into_iter().flatten().zip(0..).filter(|(_, n)| withdrawn.contains(n));
    for (times, n) in withdrawn_times {
        assert!(times.left.is_empty() && times.offered < pulled_at, "{n}: {times:?}");
    }
}

pub(crate) fn nothing_expired_arrives<S: Stage>() {
    // Twice what the path carries, and nothing is worth anything after 100 ms.
    let mut stage = S::open(&Scene::new(400, MS * 100));
    send_paced(&mut stage, 200, 1_000, MS * 10);
    let fates = stage.all_fates(200);
    let came: BTreeSet<u64> = stage.received().iter().map(|bytes| number(bytes)).collect();
    let gone: BTreeSet<u64> =
        fates.iter().filter(|(_, fate)| matches!(fate, Fate::Dropped(_))).map(|(&n, _)| n).collect();
    assert!(gone.len() > 50, "{} of 200 were given up over a path of half the rate", gone.len());
    assert!(gone.is_disjoint(&came));

    let times = stage.times().into_iter().flatten();
    let late = times.filter(|times| times.left.iter().any(|&left| times.deadline.is_some_and(|end| left > end)));
    assert_eq!(late.count(), 0, "not even by a nanosecond");
}

pub(crate) fn a_deadline_that_has_passed_when_data_come_back_to_the_ring_holds<S: Stage>() {
    let mut stage = S::open(&Scene::new(200, MS * 60_000));
    for n in 0..200 {
        stage.send(&numbered(n, 1_000), None).unwrap();
    }
    stage.pass(MS * 100);
    let past = stage.now().saturating_sub(MS);
    let expired = stage.with_ring(|ring| {
        let mut pulled = ring.pull_back_all().unwrap();
        let mut expired = BTreeSet::new();
        for place in 0..pulled.len() {
            let mut meta = pulled.queued(place).unwrap().meta;
            meta.deadline = Some(past);
            pulled.set_meta(place, &meta).unwrap();
            expired.insert(meta.seq.0);
        }
        expired
    });
    assert!(expired.len() > 50);
    let fates = stage.all_fates(200);
    for n in &expired {
        assert_eq!(fates[n], Fate::Dropped(DropReason::Expired), "{n}");
    }
    assert!(stage.received().iter().all(|bytes| !expired.contains(&number(bytes))));
    // And one that is handed over too late from the start.
    let past = stage.now().saturating_sub(MS);
    let late = stage.send(b"too late", Some(past)).unwrap();
    assert_eq!(stage.all_fates(201)[&late], Fate::Dropped(DropReason::Expired));
}

pub(crate) fn a_finished_stream_ends_in_order_with_all_delivered<S: Stage>() {
    let mut stage = S::open(&Scene::new(400, MS * 60_000));
    for n in 0..40 {
        stage.send(&numbered(n, 1_000), None).unwrap();
    }
    stage.finish();
    let fates = stage.all_fates(40);
    stage.wait_until("the sender's end has ended", |stage| stage.sending() != Status::Open);
    stage.wait_until("the receiver's end has ended", |stage| stage.receiving() != Status::Open);
    assert_eq!(stage.sending(), Status::Closed(CloseReason::Local));
    assert_eq!(stage.receiving(), Status::Closed(CloseReason::Peer));
    let acked: BTreeSet<u64> = fates.iter().filter(|(_, fate)| **fate == Fate::Acked).map(|(&n, _)| n).collect();
    let came: BTreeSet<u64> = stage.received().iter().map(|bytes| number(bytes)).collect();
    assert!(acked.is_subset(&came));
    assert!(fates.values().all(|fate| matches!(fate, Fate::Acked | Fate::Lost)), "closing drops nothing: {fates:?}");
    assert_eq!(stage.send(b"too late", None), Err(Refusal::Closed));
}

pub(crate) fn a_receiver_that_lets_go_is_an_end_for_the_sender<S: Stage>() {
    let mut stage = S::open(&Scene::new(1_000, MS * 60_000));
    for n in 0..20 {
        stage.send(&numbered(n, 500), None).unwrap();
    }
    stage.wait_until("something has come", |stage| !stage.received().is_empty());
    stage.drop_receiver();
    stage.wait_until("the sender has heard it", |stage| stage.sending() != Status::Open);
    assert_eq!(stage.sending(), Status::Closed(CloseReason::Peer));
    stage.all_fates(20);
    assert_eq!(stage.send(b"too late", None), Err(Refusal::Closed));
}

pub(crate) fn a_sender_that_lets_go_is_an_end_for_the_receiver<S: Stage>() {
    let mut stage = S::open(&Scene::new(200, MS * 60_000));
    for n in 0..300 {
        stage.send(&numbered(n, 1_000), None).unwrap();
    }
    stage.wait_until("something has come", |stage| !stage.received().is_empty());
    stage.drop_sender();
    stage.wait_until("the receiver has heard it", |stage| stage.receiving() != Status::Open);
    assert_eq!(stage.receiving(), Status::Closed(CloseReason::Peer));
    assert!(stage.received().len() < 300, "what was queued is of no use to anybody");
}

pub(crate) fn a_path_that_falls_silent_ends_both_and_every_adu_has_its_fate<S: Stage>() {
    let mut stage = S::open(&Scene::new(1_000, MS * 20_000).patient_for(MS * 2_000));
    stage.send(&numbered(0, 500), None).unwrap();
    assert_eq!(stage.all_fates(1)[&0], Fate::Acked);
    stage.cut();
    for n in 1..=50 {
        stage.send(&numbered(n, 500), None).unwrap();
    }
    let fates = stage.all_fates(51);
    let after = fates.iter().filter(|(n, _)| **n > 0);
    for (n, fate) in after {
        assert!(matches!(fate, Fate::Lost | Fate::Dropped(DropReason::Closed)), "{n}: {fate:?}");
    }
    stage.wait_until("both have noticed", |stage| stage.sending() != Status::Open && stage.receiving() != Status::Open);
    assert_eq!(stage.sending(), Status::Closed(CloseReason::Timeout));
    assert_eq!(stage.receiving(), Status::Closed(CloseReason::Timeout));
    assert_eq!(stage.received().len(), 1);
}

pub(crate) fn what_does_not_fit_is_refused_and_harms_nothing<S: Stage>() {
    let mut scene = Scene::new(200, MS * 60_000);
    scene.options.slots = 16;
    let mut stage = S::open(&scene);
    let refused = stage.send(&vec![1; Options::MAX_ADU + 1], None);
    let Err(Refusal::TooLarge { max }) = refused else { panic!("{refused:?}") };
    let max = max.min(1_000);
    assert_eq!(stage.send(&vec![2; max], None), Ok(0));
    let full = (1..100).find(|&n| match stage.send(&numbered(n, max), None) {
        Ok(seq) => {
            assert_eq!(seq, n);
            false
        }
        refused => {
            assert_eq!(refused, Err(Refusal::Full));
            true
        }
    });
    let taken = full.expect("a ring of 16 places is full some time");
    stage.wait_until("there is room again", |stage| stage.fates().len() > 4);
    assert_eq!(stage.send(&numbered(taken, max), None), Ok(taken));
    stage.all_fates(taken as usize + 1);
}
