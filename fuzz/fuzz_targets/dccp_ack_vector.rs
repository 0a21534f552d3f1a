//! Ack Vector under any sequence of arrivals and acknowledgements: it stays within its bounds and correct.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_dccp::ack_vector::{Arrival, Reports, vectors_of};
use timeous_dccp::{AckVector, OptionList, PacketState, PacketType, Seq};

#[derive(Arbitrary, Debug)]
enum Step {
    Next { marked: bool },
    Near { offset: i8, marked: bool },
    Far { offset: i64 },
    Send { limit: u16 },
    AckOf { back: u8 },
}

#[derive(Arbitrary, Debug)]
struct Input {
    first: u64,
    max_bytes: u16,
    late_window: u8,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let max_bytes = usize::from(input.max_bytes % 1_009);
    let mut vector = AckVector::new(max_bytes, u32::from(input.late_window));
    let mut truth = BTreeMap::new();
    let mut on = Seq::new(input.first >> 7);
    let mut newest = Seq::new(input.first);
    record(&mut vector, &mut truth, newest, false);
    for step in input.steps {
        match step {
            Step::Next { marked } => record(&mut vector, &mut truth, newest.next(), marked),
            Step::Near { offset, marked } => {
                let seq = Seq::new(newest.value().wrapping_add_signed(offset.into()));
                record(&mut vector, &mut truth, seq, marked);
            }
            // Valid packets are ahead by at most the largest Sequence Window (RFC 4340 §7.5.2).
            Step::Far { offset } => {
                let seq = Seq::new(newest.value().wrapping_add_signed(offset % (1 << 46)));
                record(&mut vector, &mut truth, seq, false);
            }
            Step::Send { limit } => {
                send(&mut vector, on, &truth, usize::from(limit % 1_009));
                on = on.next();
            }
            Step::AckOf { back } => vector.on_ack(on - u64::from(back)),
        }
        newest = vector.ack_number().unwrap();
        assert!(vector.vector_len() <= max_bytes.max(1));
        assert!(vector.coverage() >= 1 && vector.coverage() <= vector.vector_len() as u64 * 64);
        assert!(vector.state_of(newest).is_some_and(PacketState::has_arrived));
        assert_eq!(vector.state_of(newest - vector.coverage()), None);
        assert_eq!(vector.state_of(newest.next()), None);
    }
    send(&mut vector, on, &truth, OptionList::MAX_BYTES);
});

type Truth = BTreeMap<u64, PacketState>;

fn record(vector: &mut AckVector, truth: &mut Truth, seq: Seq, marked: bool) {
    let state = if marked { PacketState::Marked } else { PacketState::Received };
    let before = vector.ack_number();
    let covered = vector.state_of(seq);
    let arrival = vector.record(seq, state);
    let is_ahead = before.is_none_or(|before| seq.is_after(before));
    let expected = match covered {
        _ if is_ahead => Arrival::Newest,
        Some(PacketState::Missing) => Arrival::Late,
        Some(_) => Arrival::Duplicate,
        None => Arrival::TooOld,
    };
    assert_eq!(arrival, expected);
    if matches!(arrival, Arrival::Newest | Arrival::Late) {
        truth.insert(seq.value(), state);
    }
}

/// Encodes the vector and compares each report with the recorded truth.
fn send(vector: &mut AckVector, on: Seq, truth: &Truth, limit: usize) {
    let ack = vector.ack_number().unwrap();
    let mut list = OptionList::with_limit(limit);
    let is_whole = vector.push_options(on, &mut list);
    let mut covered = 0;
    for report in Reports::new(ack, ack.next(), vectors_of(list.iter(PacketType::Ack))).unwrap() {
        covered += report.newest.distance_from(report.oldest) + 1;
        // Missing packets are not compared: after jumps around the number circle, the record may hold an old packet
        // there.
        for seq in report.packets().filter(|_| report.state.has_arrived()) {
            assert_eq!(truth.get(&seq.value()), Some(&report.state));
        }
    }
    assert!(covered <= vector.coverage());
    assert_eq!(is_whole, covered == vector.coverage());
}
