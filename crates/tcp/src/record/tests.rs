//! Property tests of records against a simple model: whatever happens to the stream, only datagrams that were sent are
//! delivered, each once.

use proptest::collection::vec;
use proptest::prelude::*;
use timeous_core::{AduMeta, Instant, SubStream};

use super::*;

/// Delivered datagrams.
type Got = Vec<(u8, Option<u32>, Vec<u8>)>;

fn push(got: &mut Got) -> impl FnMut(Datagram<'_>) {
    |datagram| got.push((datagram.substream.0, datagram.number, datagram.payload.to_vec()))
}

fn read_in_order(framing: Framing, wire: &[u8]) -> Got {
    let (mut reader, mut got) = (Ordered::new(framing, 65_507), Got::new());
    reader.push(wire, push(&mut got));
    got
}

/// Payloads for all cases of COBS: zeros and other bytes, in long and short runs.
fn payload(longest: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(prop_oneof![Just(0), any::<u8>()], 0..longest),
        vec(1..=255_u8, 0..longest),
        (0..longest).prop_map(|len| vec![0; len]),
    ]
}

/// An element of the stream.
#[derive(Clone, Debug)]
enum Item {
    Numbered(u8, Vec<u8>),
    Plain(u8, Vec<u8>),
    Padding(usize),
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        3 => (2..WIDE, payload(600)).prop_map(|(substream, payload)| Item::Numbered(substream, payload)),
        1 => (2..WIDE, payload(600)).prop_map(|(substream, payload)| Item::Plain(substream, payload)),
        1 => (0..600_usize).prop_map(Item::Padding),
    ]
}

/// Returns the stream of some items, and the datagrams that a reader has to deliver.
fn stream(items: &[Item]) -> (Vec<u8>, Got) {
    let (mut wire, mut expected) = (Vec::new(), Got::new());
    for (number, item) in (0..).zip(items) {
        match item {
            Item::Numbered(substream, payload) => {
                numbered(*substream, number, payload, &mut wire);
                expected.push((*substream, Some(number), payload.clone()));
            }
            Item::Plain(substream, payload) => {
                plain(*substream, payload, &mut wire);
                expected.push((*substream, None, payload.clone()));
            }
            Item::Padding(len) => pad(*len, &mut wire),
        }
    }
    (wire, expected)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lengths_depend_on_lengths_alone(payload in payload(2_000)) {
        let mut wire = Vec::new();
        numbered(TIMED, 1, &payload, &mut wire);
        prop_assert_eq!(wire.len(), numbered_len(payload.len()));
        prop_assert_eq!(numbered_room(wire.len()), Some(payload.len()));
        prop_assert!(numbered_room(wire.len() - 1).is_none_or(|room| room < payload.len()));
        let mut wire = Vec::new();
        plain(TIMED, &payload, &mut wire);
        prop_assert!(wire.len() <= plain_len(payload.len()));
        prop_assert_eq!(plain_room(plain_len(payload.len())), Some(payload.len()));
    }

    #[test]
    fn padding_is_as_long_as_it_shall_be_and_nothing_to_deliver(len in 0..1_000_usize) {
        let mut wire = Vec::new();
        pad(len, &mut wire);
        prop_assert_eq!(wire.len(), len);
        let mut reader = Ordered::default();
        reader.push(&wire, |_| panic!("padding was delivered"));
        let padding = u64::from(len >= 4);
        prop_assert_eq!(*reader.counts(), Counts { padding, ..Counts::default() });
        prop_assert_eq!(reader.held(), 0);
    }

    #[test]
    fn what_was_written_is_read(items in vec(item(), 0..20), cuts in vec(1..700_usize, 1..20)) {
        let (wire, expected) = stream(&items);
        let (mut reader, mut got) = (Ordered::new(Framing::Plain, 600), Got::new());
        let (mut at, mut cuts) = (0, cuts.iter().cycle());
        while at < wire.len() {
            let end = wire.len().min(at + cuts.next().unwrap());
            reader.push(&wire[at..end], push(&mut got));
            at = end;
        }
        prop_assert_eq!(&got, &expected);
        prop_assert_eq!(reader.counts().damaged, 0);
        let numbered_only: Got = expected.into_iter().filter(|(_, number, _)| number.is_some()).collect();
        prop_assert_eq!(read_in_order(Framing::Numbered, &wire), numbered_only);
    }

    #[test]
    fn pieces_in_any_order_give_the_same_datagrams(
        items in vec(item(), 1..15),
        pieces in vec((any::<prop::sample::Index>(), 1..900_usize), 0..40),
        order in any::<u64>(),
    ) {
        let (wire, mut expected) = stream(&items);
        prop_assume!(!wire.is_empty());
        let (mut reader, mut got) = (Unordered::new(Framing::Plain, Limits::default()), Got::new());
        for (at, len) in &pieces {
            let at = at.index(wire.len());
            reader.insert(at as u64, &wire[at..wire.len().min(at + len)], push(&mut got));
        }
        // All of it again, in pieces of equal length, from some offset to the end and then from the beginning.
        let parts = wire.len().div_ceil(100);
        for part in 0..parts {
            let at = (part + order as usize % parts) % parts * 100;
            reader.insert(at as u64, &wire[at..wire.len().min(at + 100)], push(&mut got));
        }
        got.sort();
        expected.sort();
        prop_assert_eq!(got, expected);
        prop_assert_eq!(reader.next(), wire.len() as u64);
        prop_assert_eq!((reader.held(), reader.refused()), (0, 0));
    }

    /// Different versions of the bytes at different offsets, as after a changed retransmission that a middlebox splits
    /// anew.
    #[test]
    fn a_mixture_of_versions_delivers_only_what_was_offered(
        versions in vec(vec((2..WIDE, payload(300)), 1..8), 2..4),
        pieces in vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1..500_usize), 1..60),
    ) {
        let mut offered = Got::new();
        let wires: Vec<Vec<u8>> = versions.iter().map(|version| {
            let mut wire = Vec::new();
            for (substream, payload) in version {
                let number = offered.len() as u32;
                numbered(*substream, number, payload, &mut wire);
                offered.push((*substream, Some(number), payload.clone()));
            }
            wire
        }).collect();
        let (mut reader, mut got) = (Unordered::new(Framing::Numbered, Limits::default()), Got::new());
        for (version, at, len) in &pieces {
            let wire = &wires[version.index(wires.len())];
            let at = at.index(wire.len());
            reader.insert(at as u64, &wire[at..wire.len().min(at + len)], push(&mut got));
        }
        for wire in &wires {
            reader.insert(0, wire, push(&mut got));
        }
        let mut numbers: Vec<_> = got.iter().map(|(_, number, _)| *number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), got.len(), "each at most once");
        prop_assert!(got.iter().all(|datagram| offered.contains(datagram)));
    }

    #[test]
    fn memory_is_bounded_whatever_comes(
        pieces in vec((0..20_000_u64, vec(prop_oneof![9 => Just(7_u8), 1 => Just(0)], 1..300), any::<bool>()), 0..200),
    ) {
        let limits = Limits { longest: 200, stretches: 8, held: 1_000 };
        let mut reader = Unordered::new(Framing::Numbered, limits);
        for (at, bytes, skip) in pieces {
            if skip && at % 16 == 0 {
                reader.skip_to(at);
                prop_assert!(reader.next() >= at);
            } else {
                reader.insert(at, &bytes, |_| {});
            }
            prop_assert!(reader.stretches() <= limits.stretches + 1);
            prop_assert!(reader.held() <= limits.held + numbered_len(limits.longest));
            prop_assert_eq!(reader.held(), reader.count_held());
        }
    }
}

#[test]
fn the_wire_is_as_the_picture_says() {
    let mut wire = Vec::new();
    plain(5, &[9, 0, 8], &mut wire);
    assert_eq!(wire, [0, 3, 5, 9, 2, 8, 0]);
    wire.clear();
    numbered(5, 0x0102_0304, &[9, 0, 8], &mut wire);
    // CRC-32 of 85 01 02 03 04 09 00 08 by Python's zlib.
    let crc = 0x5C8E_A052_u32.to_be_bytes();
    assert_eq!(wire[..2], [0, 7]);
    assert_eq!(wire[2..8], [0x85, 1, 2, 3, 4, 9]);
    assert_eq!(wire[8..10], [6, 8]);
    assert_eq!(wire[10..], [crc[0], crc[1], crc[2], crc[3], 0]);
}

#[test]
fn a_number_is_delivered_once() {
    let mut wire = Vec::new();
    numbered(TIMED, 4, b"once", &mut wire);
    numbered(TIMED, 4, b"once", &mut wire);
    let mut reader = Ordered::default();
    let mut got = Got::new();
    reader.push(&wire, push(&mut got));
    assert_eq!(got, [(TIMED, Some(4), b"once".to_vec())]);
    assert_eq!(reader.counts().duplicates, 1);
}

#[test]
fn any_bit_that_flips_is_seen() {
    let mut wire = Vec::new();
    numbered(TIMED, 4, &[5; 40], &mut wire);
    for bit in 0..8 * wire.len() {
        let mut torn = wire.clone();
        torn[bit / 8] ^= 1 << (bit % 8);
        let got = read_in_order(Framing::Numbered, &torn);
        // A zero before the first record or after the last changes nothing.
        assert!(got.is_empty() || got == [(TIMED, Some(4), vec![5; 40])], "bit {bit}");
    }
}

#[test]
fn what_is_too_long_is_passed_over() {
    let mut wire = Vec::new();
    numbered(TIMED, 0, &[1; 101], &mut wire);
    numbered(TIMED, 1, &[1; 90], &mut wire);
    let mut reader = Ordered::new(Framing::Numbered, 90);
    let mut got = Got::new();
    for bytes in wire.chunks(10) {
        reader.push(bytes, push(&mut got));
        assert!(reader.held() <= numbered_len(90));
    }
    assert_eq!(got, [(TIMED, Some(1), vec![1; 90])]);
    assert_eq!(reader.counts().overlong, 1);
}

#[test]
fn what_never_comes_is_skipped_and_the_records_after_it_are_read() {
    let mut wire = Vec::new();
    for number in 0..4 {
        numbered(TIMED, number, &[number as u8; 50], &mut wire);
    }
    let len = wire.len() / 4;
    let mut reader = Unordered::new(Framing::Numbered, Limits::default());
    let mut got = Got::new();
    reader.insert(0, &wire[..len / 2], push(&mut got));
    reader.insert(2 * len as u64 - 10, &wire[2 * len - 10..3 * len + 10], push(&mut got));
    reader.skip_to(2 * len as u64 - 20);
    reader.insert(len as u64, &wire[len..2 * len], push(&mut got));
    reader.insert(3 * len as u64, &wire[3 * len..], push(&mut got));
    let numbers: Vec<_> = got.iter().map(|(_, number, _)| number.unwrap()).collect();
    assert_eq!(numbers, [2, 3]);
    assert_eq!((reader.next(), reader.held()), (4 * len as u64, 0));
}

#[test]
fn the_application_s_sub_streams_have_their_numbers() {
    let mut wire = Vec::new();
    for substream in [TIMED, UNTIMED, CONTROL] {
        numbered(substream, u32::from(substream), b"", &mut wire);
    }
    let mut substreams = Vec::new();
    Ordered::default().push(&wire, |datagram| substreams.push(datagram.substream));
    assert_eq!(substreams, [SubStream(TIMED), SubStream(UNTIMED), SubStream(CONTROL)]);
}

/// Regression: plain records whose COBS groups of 254 end exactly with the data were not read.
#[test]
fn every_length_of_data_without_a_zero_is_read() {
    for len in 0..1_100 {
        let payload = vec![7; len];
        let mut wire = Vec::new();
        plain(TIMED, &payload, &mut wire);
        numbered(TIMED, 1, &payload, &mut wire);
        numbered(TIMED, 0x0101_0101, &payload, &mut wire);
        let got = read_in_order(Framing::Plain, &wire);
        let expected = [None, Some(1), Some(0x0101_0101)].map(|number| (TIMED, number, payload.clone()));
        assert_eq!(got, expected, "{len} bytes");
    }
}

#[test]
fn the_substream_is_the_applications_or_tells_of_a_deadline() {
    let meta = AduMeta { deadline: Some(Instant::ZERO), ..AduMeta::default() };
    assert_eq!([substream_of(&meta), substream_of(&AduMeta::default())], [TIMED, UNTIMED]);
    for own in 1..=255 {
        assert_eq!(substream_of(&AduMeta { substream: SubStream(own), ..meta }), own);
    }
}
