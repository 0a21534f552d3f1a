//! Record parsers on any stream in any pieces: in-order data gives the same datagrams however it is split; memory is
//! bounded; and valid records within garbage are found.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_tcp::record::{Datagram, Framing, Limits, Ordered, Unordered, numbered, numbered_len, pad, plain};

#[derive(Arbitrary, Debug)]
enum Item {
    Bytes(Vec<u8>),
    /// Numbers far behind others count as delivered, so that the order matters.
    Numbered { substream: u8, number: u16, payload: Vec<u8> },
    Plain { substream: u8, payload: Vec<u8> },
    Padding(u8),
}

#[derive(Arbitrary, Debug)]
struct Input {
    plain: bool,
    longest: u8,
    stretches: u8,
    held: u16,
    items: Vec<Item>,
    pieces: Vec<(u16, u16)>,
    skip: Option<u16>,
}

fn keep(got: &mut Vec<Vec<u8>>) -> impl FnMut(Datagram<'_>) {
    |datagram| got.push(datagram.payload.to_vec())
}

fuzz_target!(|input: Input| {
    let framing = if input.plain { Framing::Plain } else { Framing::Numbered };
    let longest = usize::from(input.longest);
    let mut wire = Vec::new();
    for item in &input.items {
        match item {
            Item::Bytes(bytes) => wire.extend_from_slice(bytes),
            Item::Numbered { substream, number, payload } => numbered(2 + substream % 126, (*number).into(), payload, &mut wire),
            Item::Plain { substream, payload } => plain(2 + substream % 126, payload, &mut wire),
            Item::Padding(len) => pad(usize::from(*len), &mut wire),
        }
    }
    let (mut whole, mut expected) = (Ordered::new(framing.clone(), longest), Vec::new());
    whole.push(&wire, keep(&mut expected));

    let (mut cut, mut got) = (Ordered::new(framing.clone(), longest), Vec::new());
    for bytes in wire.chunks(1 + usize::from(input.held % 97)) {
        cut.push(bytes, keep(&mut got));
        assert!(cut.held() <= numbered_len(longest));
    }
    assert_eq!((got, cut.counts()), (expected.clone(), whole.counts()));

    let limits = Limits { longest, stretches: input.stretches.into(), held: input.held.into() };
    let (mut reader, mut got) = (Unordered::new(framing, limits), Vec::new());
    for &(at, len) in &input.pieces {
        let at = usize::from(at).min(wire.len());
        let end = wire.len().min(at + usize::from(len));
        reader.insert(at as u64, &wire[at..end], keep(&mut got));
        assert!(reader.held() <= limits.held + numbered_len(longest));
    }
    if let Some(skip) = input.skip {
        reader.skip_to(skip.into());
        assert!(reader.next() >= skip.into());
    }
    reader.insert(0, &wire, keep(&mut got));
    assert!(reader.next() >= wire.len() as u64);
    if input.skip.is_none() && !input.plain {
        // With equal numbers, the first one depends on the order.
        assert_eq!(got.len(), expected.len());
    }
});
