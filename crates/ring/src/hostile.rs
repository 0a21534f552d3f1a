//! Tests with a producer that writes arbitrary values anywhere: the consumer must report it without further harm.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use timeous_core::{AduMeta, AduSeq, DropReason, Instant, Queue, Rng};

use crate::create::create_at;
use crate::layout::{Config, Shared};
use crate::sync::Ordering;
use crate::{Broken, Consumer, PAGE, PacketZone, Producer, SharedZone, Violation, ZoneKey, create};

const SLOTS: u32 = 8;

/// Random value that is likely to do harm: near a valid one, at an edge, or arbitrary.
fn nasty(rng: &mut Rng, shared: &Shared, words: u64) -> u64 {
    let other = shared.memory.word(rng.below(words) as usize).load(Ordering::Relaxed);
    match rng.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => rng.below(2 * u64::from(SLOTS)),
        3 => other,
        4 => other.wrapping_add(rng.below(5)).wrapping_sub(2),
        5 => other ^ 1 << rng.below(64),
        6 => rng.below(1 << 20) << 32 | rng.below(1 << 20),
        _ => rng.next_u64(),
    }
}

/// Calls any method of the consumer. After a violation each answer must be that violation.
fn exercise(consumer: &mut Consumer, rng: &mut Rng, tokens: &mut Vec<u64>, bytes: &mut Vec<u8>) {
    let known = consumer.violation();
    let token = if tokens.is_empty() { rng.next_u64() } else { tokens[rng.below(tokens.len() as u64) as usize] };
    match rng.below(8) {
        0 | 1 => match consumer.claim_within(Instant::from_nanos(rng.below(100)), 5000) {
            Ok(Some(claimed)) => {
                bytes.clear();
                assert!(consumer.copy_payload(claimed.token, bytes));
                assert_eq!(bytes.len(), claimed.len);
                assert!(claimed.len <= 4096);
                tokens.push(claimed.token);
            }
            Ok(None) => {}
            Err(violation) => assert_eq!(consumer.violation(), Some(violation)),
        },
        2 => {
            if let Ok(mut queue) = consumer.queued() {
                assert!(queue.len() < SLOTS as usize, "N-1 packets at most");
                for place in 0..queue.len() {
                    if queue.get(place).is_some() && rng.below(2) == 0 {
                        queue.drop_at(place, DropReason::Policy);
                        assert!(queue.get(place).is_none());
                    }
                }
            }
        }
        3 => consumer.sent(token),
        4 => drop(consumer.acked(token)),
        5 => drop(consumer.lost(token)),
        6 => drop(consumer.dropped(token, DropReason::TooLate)),
        _ => {
            consumer.stop_polling();
        }
    }
    if known.is_some() {
        assert_eq!(consumer.violation(), known, "the first violation stays");
        assert_eq!(consumer.claim(Instant::ZERO).err(), known, "and nothing comes after it");
        assert!(!consumer.has_queued());
    }
}

fn feed(producer: &mut Producer, rng: &mut Rng) {
    let meta = AduMeta { seq: AduSeq(rng.next_u64()), ..AduMeta::default() };
    match rng.below(5) {
        0..=2 => {
            let _whatever = producer.enqueue(&meta, &[5; 100][..rng.below(100) as usize]);
        }
        3 => {
            if let Ok(mut pulled) = producer.pull_back(3) {
                pulled.swap(0, 1);
                let _whatever = pulled.rewrite(0, &meta, b"other");
            }
        }
        _ => {
            producer.poll_completion();
        }
    }
}

fn kind(violation: Violation) -> &'static str {
    match violation {
        Violation::KernMoved { .. } => "kern moved",
        Violation::UmodOutside { .. } => "umod outside",
        Violation::UserWentBack { .. } => "user back",
        Violation::TooManyPackets { .. } => "too many",
        Violation::Torn { .. } => "torn",
        Violation::BadRecord { .. } => "bad record",
        Violation::BadPlace { .. } => "bad place",
        Violation::NoSuchZone { .. } => "no zone",
        Violation::BadCompletionIndex { .. } => "completion index",
        Violation::Contended { .. } => "contended",
    }
}

/// Runs one ring under attack; returns the violation found.
fn one_life(seed: u64) -> Option<Violation> {
    let mut rng = Rng::from_seed(seed);
    let origin = if seed.is_multiple_of(2) { 0 } else { u64::from(u32::MAX) - rng.below(20) };
    let (mut producer, mut consumer) = create_at(&Config::new(SLOTS).completions(4), origin).unwrap();
    let shared = Arc::clone(&producer.shared);
    let control = shared.geometry.zone_at() as u64;
    let (mut tokens, mut bytes) = (Vec::new(), Vec::new());
    // Half of the seeds attack a single word, so that each kind of damage is found by its own check.
    let target = rng.below(control) as usize;
    for _ in 0..200 {
        feed(&mut producer, &mut rng);
        exercise(&mut consumer, &mut rng, &mut tokens, &mut bytes);
        if rng.below(4) == 0 {
            let at = if seed % 4 < 2 { target } else { rng.below(control) as usize };
            let value = nasty(&mut rng, &shared, control);
            shared.memory.word(at).store(value, Ordering::Relaxed);
        }
    }
    consumer.settle_all();
    assert_eq!(consumer.unsettled_len(), 0);
    consumer.violation()
}

#[test]
fn any_word_with_any_value_at_any_time() {
    let found: BTreeSet<&str> = (0..6000).filter_map(one_life).map(kind).collect();
    let every = [
        "bad place",
        "bad record",
        "completion index",
        "kern moved",
        "no zone",
        "too many",
        "torn",
        "umod outside",
        "user back",
    ];
    assert!(found.iter().eq(every.iter()), "not every check was reached: {found:?}");
}

#[test]
fn each_word_of_the_ring_with_each_edge() {
    let geometry = create(&Config::new(SLOTS)).unwrap().0.shared.geometry;
    for at in 0..geometry.zone_at() {
        for value in [0, 1, 7, 8, 1 << 31, 1 << 32, u64::MAX - 1, u64::MAX] {
            let (mut producer, mut consumer) = create(&Config::new(SLOTS)).unwrap();
            let mut rng = Rng::from_seed(value);
            for seq in 0..5 {
                producer.enqueue(&AduMeta { seq: AduSeq(seq), ..AduMeta::default() }, b"payload").unwrap();
            }
            let (mut tokens, mut bytes) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                producer.shared.memory.word(at).store(value, Ordering::Relaxed);
                for _ in 0..20 {
                    exercise(&mut consumer, &mut rng, &mut tokens, &mut bytes);
                }
                feed(&mut producer, &mut rng);
            }
        }
    }
}

/// A record names any zone and any place: the consumer reads within an attached zone, or reports a violation.
#[test]
fn any_zone_with_any_place() {
    let zone = PacketZone::new(PAGE as u32, 2).unwrap();
    let buffer = zone.buffer().unwrap().freeze();
    let mut reached = BTreeSet::new();
    for number in 0..128 {
        for place in [0, 5, 4096, 4097, 4096 << 32 | 4096, 8192 << 32, 8192 << 32 | 1, 4100 << 32 | 4096, u64::MAX] {
            let (mut producer, mut consumer) = create(&Config::new(SLOTS).buffers(1)).unwrap();
            producer.enqueue_part(&AduMeta::default(), &buffer, 0..8).unwrap();
            let words = producer.shared.record(0);
            words[crate::record::PLACE].store(place, Ordering::Relaxed);
            words[crate::record::ATTRIBUTES].store(number << 25, Ordering::Relaxed);
            let mut bytes = Vec::new();
            match consumer.claim(Instant::ZERO) {
                Ok(Some(claimed)) => {
                    assert!(number <= 1 && consumer.payload(claimed.token).is_some());
                    assert!(consumer.copy_payload(claimed.token, &mut bytes));
                    reached.insert("read");
                }
                Ok(None) => panic!("a packet is queued"),
                Err(violation) => {
                    assert!(number <= 1 || violation == Violation::NoSuchZone { token: 0, zone: number as u8 });
                    reached.insert(kind(violation));
                }
            }
        }
    }
    assert!(reached.iter().eq(["bad place", "no zone", "read"].iter()), "{reached:?}");
}

/// A zone of another process's ring cannot be attached: its number is a violation.
#[test]
fn a_ring_between_processes_has_no_other_zone() {
    let (mut producer, fd) = crate::create_shared(&Config::new(SLOTS)).unwrap();
    let mut consumer = Consumer::open(fd, &crate::Limits::default()).unwrap();
    producer.enqueue(&AduMeta::default(), b"payload").unwrap();
    producer.shared.record(0)[crate::record::ATTRIBUTES].store(1 << 25, Ordering::Relaxed);
    assert_eq!(consumer.claim(Instant::ZERO), Err(Violation::NoSuchZone { token: 0, zone: 1 }));
}

/// The same in a zone between two processes, whose number is given to a smaller zone meanwhile.
#[test]
fn any_place_in_a_zone_between_processes() {
    let size = PAGE as u32;
    let mut reached = BTreeSet::new();
    for number in 0..128 {
        for place in [0, 5, 4096, 4097, 4096 << 32 | 4096, 8192 << 32, 8192 << 32 | 1, 4100 << 32 | 4096, u64::MAX] {
            let (mut consumer, ring) = crate::create_shared_for_producer(&Config::new(SLOTS).buffers(1)).unwrap();
            let (shared, memory) = SharedZone::create(size, 2).unwrap();
            let (smaller, _) = SharedZone::create(size, 1).unwrap();
            let mut producer = Producer::open(ring, &crate::Limits::default()).unwrap();
            let zone = PacketZone::open(memory, size, 2, ZoneKey(1), ()).unwrap();
            let buffer = zone.buffer().unwrap().freeze();
            let request = producer.zone_to_attach(&buffer).unwrap().unwrap();
            assert!(consumer.zones().attach(request.number(), &shared));
            producer.attached(request);
            producer.enqueue_part(&AduMeta::default(), &buffer, 0..8).unwrap();
            let words = producer.shared.record(0);
            words[crate::record::PLACE].store(place, Ordering::Relaxed);
            words[crate::record::ATTRIBUTES].store(number << 25, Ordering::Relaxed);
            let claimed = match consumer.claim(Instant::ZERO) {
                Ok(claimed) => claimed.expect("a packet is queued"),
                Err(violation) => {
                    assert!(number <= 1 || violation == Violation::NoSuchZone { token: 0, zone: number as u8 });
                    reached.insert(kind(violation));
                    continue;
                }
            };
            assert!(number <= 1 && consumer.payload(claimed.token).is_some());
            assert!(consumer.copy_payload(claimed.token, &mut Vec::new()));
            // The consumer looks at the table again when it claims another packet.
            assert!(consumer.zones().attach(1, &smaller));
            producer.enqueue_part(&AduMeta::default(), &buffer, 0..8).unwrap();
            consumer.claim(Instant::ZERO).unwrap().expect("the other is in the smaller zone, too");
            let is_within = number == 0 || (place >> 32) + (place as u32 as u64) <= PAGE as u64;
            assert_eq!(consumer.payload(claimed.token).is_some(), is_within, "{place:#x} in zone {number}");
            assert_eq!(consumer.copy_payload(claimed.token, &mut Vec::new()), is_within);
            reached.insert(if is_within { "read" } else { "gone" });
        }
    }
    assert!(reached.iter().eq(["bad place", "gone", "no zone", "read"].iter()), "{reached:?}");
}

#[test]
fn numbers_of_zones_have_no_gaps() {
    let (consumer, _ring) = crate::create_shared_for_producer(&Config::new(SLOTS)).unwrap();
    let (zone, _) = SharedZone::create(PAGE as u32, 1).unwrap();
    let zones = consumer.zones();
    assert!(!zones.attach(0, &zone) && !zones.attach(2, &zone) && !zones.attach(255, &zone));
    for number in 1..=127 {
        assert!(zones.attach(number, &zone));
    }
    assert!(!zones.attach(128, &zone) && zones.attach(64, &zone));
    assert!(zone.is_used());
    drop((consumer, zones));
    assert!(!zone.is_used());
}

/// A transport that reports packets as sent that it has not claimed: their slots stay, and may be pulled back.
#[test]
fn packets_that_were_not_claimed_have_not_left() {
    let (mut producer, _consumer) = create(&Config::new(SLOTS)).unwrap();
    for seq in 0..3 {
        producer.enqueue(&AduMeta { seq: AduSeq(seq), ..AduMeta::default() }, b"payload").unwrap();
    }
    producer.shared.dev_i().store(2, Ordering::Release);
    producer.free_slots();
    assert_eq!(producer.broken(), Some(Broken::Device { last: 0, found: 2, kern: 0 }));
    assert_eq!(producer.pull_back_all().unwrap_err(), producer.broken().unwrap());
}

/// Concurrent attack: a thread writes while the consumer reads. Depending on the seed it attacks all words, the
/// records, or only the packed word, which it keeps changing between plausible values.
#[test]
fn a_thread_that_writes_everywhere_all_the_time() {
    let mut violations = 0;
    for seed in 0..300 {
        let (mut producer, mut consumer) = create(&Config::new(SLOTS).completions(4)).unwrap();
        let shared = Arc::clone(&producer.shared);
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let attacks = Arc::new(AtomicU64::new(0));
        let attacked = Arc::clone(&attacks);
        let enemy = thread::spawn(move || {
            let mut rng = Rng::from_seed(seed);
            let control = shared.geometry.zone_at() as u64;
            while !stopped.load(Ordering::Relaxed) {
                attacked.fetch_add(1, Ordering::Relaxed);
                match seed % 3 {
                    0 => {
                        let at = rng.below(shared.geometry.words() as u64) as usize;
                        shared.memory.word(at).store(nasty(&mut rng, &shared, control), Ordering::Relaxed);
                    }
                    1 => {
                        let words = shared.record(rng.below(SLOTS.into()) as usize);
                        let at = rng.below(words.len() as u64) as usize;
                        words[at].store(nasty(&mut rng, &shared, control), Ordering::Relaxed);
                    }
                    _ => {
                        let word = shared.packed();
                        let seen = word.load(Ordering::Relaxed);
                        let moved = u64::from(seen as u32) | (seen & 0xffff_ffff).wrapping_add(rng.below(3)) << 32;
                        let _lost_to_the_consumer =
                            word.compare_exchange(seen, moved, Ordering::Relaxed, Ordering::Relaxed);
                    }
                }
            }
        });
        let mut rng = Rng::from_seed(!seed);
        let (mut tokens, mut bytes) = (Vec::new(), Vec::new());
        for round in 0..400 {
            // Make the attacker keep up on a busy machine, or it would be no attack.
            while attacks.load(Ordering::Relaxed) < round {
                thread::yield_now();
            }
            feed(&mut producer, &mut rng);
            exercise(&mut consumer, &mut rng, &mut tokens, &mut bytes);
        }
        stop.store(true, Ordering::Relaxed);
        enemy.join().unwrap();
        violations += u32::from(consumer.violation().is_some());
    }
    assert!(violations > 0, "the attack was never noticed");
}
