//! A stream and its captured segments against a simple model: every datagram is delivered once.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Next step of the test.
#[derive(Clone, Debug)]
enum Step {
    /// A segment is captured: its range, its version, and a changed byte.
    See { from: usize, len: usize, newer: bool, torn: Option<(usize, u8)> },
    /// A number of bytes is read from the stream.
    Read(usize),
    /// The host acknowledges everything read so far.
    Passed,
}

fn step() -> impl Strategy<Value = Step> {
    let torn = proptest::option::weighted(0.2, (0..1_500_usize, 1..=255_u8));
    prop_oneof![
        4 => (0..20_000_usize, 1..1_500_usize, any::<bool>(), torn)
            .prop_map(|(from, len, newer, torn)| Step::See { from, len, newer, torn }),
        2 => (1..2_000_usize).prop_map(Step::Read),
        1 => Just(Step::Passed),
    ]
}

fn payload(number: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| if at % 7 == 0 { 0 } else { (number as usize * 31 + at) as u8 }).collect()
}

/// Two versions of a stream: in the newer one, some records are replaced by a copy of a later one, or by padding.
fn versions(lens: &[usize], replaced: &[bool]) -> [Vec<u8>; 2] {
    let (mut old, mut newer) = (Vec::new(), Vec::new());
    for (number, &len) in (0..).zip(lens) {
        let mut record = Vec::new();
        numbered(2, number, &payload(number, len), &mut record);
        old.extend_from_slice(&record);
        let later = (number + 1..).zip(&lens[number as usize + 1..]).find(|&(_, &later)| later <= len);
        match (replaced[number as usize % replaced.len()], later) {
            (false, _) => newer.extend_from_slice(&record),
            (true, Some((copied, &later))) => {
                let end = newer.len() + record.len();
                numbered(2, copied, &payload(copied, later), &mut newer);
                pad(end - newer.len(), &mut newer);
            }
            (true, None) => pad(record.len(), &mut newer),
        }
    }
    [old, newer]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_datagram_of_the_stream_is_delivered_once_and_nothing_else_than_was_offered(
        lens in vec(0..700_usize, 1..40),
        replaced in vec(any::<bool>(), 1..8),
        base in 0..300_usize,
        steps in vec(step(), 0..80),
    ) {
        let [old, newer] = versions(&lens, &replaced);
        prop_assert_eq!(old.len(), newer.len());
        let mut reader = Tapped::new(Framing::Numbered, Limits { longest: 1_000, ..Limits::default() });
        let mut got: BTreeMap<u32, u32> = BTreeMap::new();
        let mut wrong = Vec::new();
        let mut deliver = |datagram: Datagram<'_>| {
            let number = datagram.number.unwrap();
            *got.entry(number).or_default() += 1;
            let len = lens.get(number as usize).copied();
            if len.is_none_or(|len| datagram.payload != payload(number, len)) {
                wrong.push(number);
            }
        };
        let mut read = 0_usize;
        for step in steps {
            match step {
                Step::Passed => reader.passed(read.saturating_sub(base) as u64),
                Step::Read(len) => {
                    let end = newer.len().min(read + len);
                    reader.push(&newer[read..end], &mut deliver);
                    read = end;
                }
                Step::See { from, len, newer: is_newer, torn } => {
                    let wire = if is_newer { &newer } else { &old };
                    let from = base + from % wire.len();
                    let mut bytes = wire.get(from..wire.len().min(from + len)).unwrap_or_default().to_vec();
                    if let Some((at, by)) = torn.filter(|_| !bytes.is_empty()) {
                        let at = at % bytes.len();
                        bytes[at] ^= by;
                    }
                    reader.see((from - base) as u64, &bytes, &mut deliver);
                }
            }
        }
        reader.push(&newer[read..], &mut deliver);
        prop_assert_eq!(wrong, Vec::<u32>::new());
        prop_assert!(got.values().all(|&times| times == 1), "{:?}", got);
        // All datagrams of the stream are delivered, whichever way.
        let mut model = Ordered::new(Framing::Numbered, 1_000);
        model.push(&newer, |datagram| assert!(got.contains_key(&datagram.number.unwrap())));
    }
}

#[test]
fn a_forged_record_far_ahead_does_not_end_delivery() {
    for forged in [100_000, 1 << 30, u32::MAX / 2] {
        let [wire, _] = versions(&[100; 50], &[false]);
        let (mut reader, mut far, mut numbers) =
            (Tapped::new(Framing::Numbered, Limits::default()), vec![0], Vec::new());
        numbered(2, forged, b"forged", &mut far);
        let mut deliver = |datagram: Datagram<'_>| numbers.push(datagram.number.unwrap());
        reader.see(wire.len() as u64, &far, &mut deliver);
        reader.push(&wire[..wire.len() / 2], &mut deliver);
        reader.see(wire.len() as u64 + 1_000, &far, &mut deliver);
        reader.push(&wire[wire.len() / 2..], &mut deliver);
        assert!(numbers.iter().copied().eq(0..50), "{forged}: {numbers:?}");
    }
}

#[test]
fn what_was_missed_of_the_segments_is_not_waited_for() {
    let [wire, _] = versions(&[100; 2_000], &[false]);
    let record = numbered_len(100);
    let mut reader = Tapped::new(Framing::Numbered, Limits { longest: 1_000, stretches: 8, held: 2_000 });
    let mut count = 0;
    for at in (0..wire.len()).step_by(3 * record) {
        // Of every three datagrams, one is missed and two are captured; then the stream has passed all three.
        let end = wire.len().min(at + 3 * record);
        reader.see((at + record) as u64, &wire[(at + record).min(end)..end], |_| count += 1);
        reader.passed(end as u64);
    }
    assert_eq!(count, 1_332 + 1);
    assert!(reader.held() < 2_000);
}
