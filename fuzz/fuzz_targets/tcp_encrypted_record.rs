//! Parsers of encrypted records on any stream in any pieces: only what was written with the key is delivered, each number once;
//! in-order data gives the same datagrams however it is split; memory is bounded. Writes have counters of their own.
#![no_main]

use std::collections::BTreeSet;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_seal::{Cipher, Secret};
use timeous_tcp::record::{Datagram, Framing, Limits, Ordered, Unordered, Writer, encrypted_len, numbered, pad, plain};

#[derive(Arbitrary, Debug)]
enum Item {
    Bytes(Vec<u8>),
    Encrypted {
        substream: u8,
        number: u16,
        payload: Vec<u8>,
    },
    /// A copy of an earlier record, encrypted anew or byte by byte, with one byte changed.
    Copy {
        of: u8,
        anew: bool,
        torn: Option<(u16, u8)>,
    },
    /// The front of one record and the rest of another.
    Mixture {
        first: u8,
        second: u8,
        at: u16,
    },
    Numbered {
        substream: u8,
        number: u16,
        payload: Vec<u8>,
    },
    Plain {
        substream: u8,
        payload: Vec<u8>,
    },
    PlainPadding(u8),
    Padding(u8),
}

#[derive(Arbitrary, Debug)]
struct Input {
    longest: u8,
    stretches: u8,
    held: u16,
    items: Vec<Item>,
    pieces: Vec<(u16, u16)>,
    skip: Option<u16>,
}

type Got = Vec<(u8, u32, Vec<u8>)>;

fn keep(got: &mut Got) -> impl FnMut(Datagram<'_>) {
    |datagram| got.push((datagram.substream.0, datagram.number.expect("it was encrypted"), datagram.payload.to_vec()))
}

fuzz_target!(|input: Input| {
    let (cipher, secret) = (Cipher::Aes128Gcm, Secret::new([3; 32]));
    let framing = || Framing::Encrypted(cipher, secret.clone());
    let mut writer = Writer::encrypted(cipher, secret.clone());
    let longest = usize::from(input.longest);
    let (mut wire, mut records, mut offered) = (Vec::new(), Vec::<Vec<u8>>::new(), Got::new());
    for item in &input.items {
        let record = |at: &u8| (!records.is_empty()).then(|| &records[usize::from(*at) % records.len()]);
        match item {
            Item::Bytes(bytes) => wire.extend_from_slice(bytes),
            Item::Encrypted { substream, number, payload } => {
                let (substream, number, start) = (2 + substream % 126, u32::from(*number), wire.len());
                writer.write(substream, number, payload, &mut wire);
                assert_eq!(wire.len() - start, encrypted_len(payload.len()));
                offered.push((substream, number, payload.clone()));
                let record = wire[start..].to_vec();
                assert!(!records.contains(&record));
                records.push(record);
            }
            Item::Copy { of, anew, torn } => {
                let Some(record) = record(of) else { continue };
                let start = wire.len();
                if *anew {
                    assert!(writer.copy(record, &mut wire));
                    assert!(wire[start..] != record[..] && wire.len() - start == record.len());
                } else {
                    wire.extend_from_slice(record);
                }
                if let Some((at, by)) = torn {
                    wire[start + usize::from(*at) % record.len()] ^= by;
                }
            }
            Item::Mixture { first, second, at } => {
                let (Some(first), Some(second)) = (record(first), record(second)) else { continue };
                let at = usize::from(*at).min(first.len()).min(second.len());
                wire.extend_from_slice(&first[..at]);
                wire.extend_from_slice(&second[at..]);
            }
            Item::Numbered { substream, number, payload } => {
                numbered(2 + substream % 126, (*number).into(), payload, &mut wire);
            }
            Item::Plain { substream, payload } => plain(2 + substream % 126, payload, &mut wire),
            Item::PlainPadding(len) => pad(usize::from(*len), &mut wire),
            Item::Padding(len) => writer.pad(usize::from(*len), &mut wire),
        }
    }
    let check = |got: &Got| {
        assert!(got.iter().all(|datagram| offered.contains(datagram)), "forged");
        let numbers: BTreeSet<_> = got.iter().map(|(_, number, _)| number).collect();
        assert_eq!(numbers.len(), got.len(), "each number once");
    };
    let (mut whole, mut expected) = (Ordered::new(framing(), longest), Got::new());
    whole.push(&wire, keep(&mut expected));
    check(&expected);

    let (mut cut, mut got) = (Ordered::new(framing(), longest), Got::new());
    for bytes in wire.chunks(1 + usize::from(input.held % 97)) {
        cut.push(bytes, keep(&mut got));
        assert!(cut.held() <= encrypted_len(longest));
    }
    assert_eq!((&got, cut.counts()), (&expected, whole.counts()));

    let limits = Limits { longest, stretches: input.stretches.into(), held: input.held.into() };
    let (mut reader, mut got) = (Unordered::new(framing(), limits), Got::new());
    for &(at, len) in &input.pieces {
        let at = usize::from(at).min(wire.len());
        let end = wire.len().min(at + usize::from(len));
        reader.insert(at as u64, &wire[at..end], keep(&mut got));
        assert!(reader.held() <= limits.held + encrypted_len(longest));
    }
    if let Some(skip) = input.skip {
        reader.skip_to(skip.into());
        assert!(reader.next() >= skip.into());
    }
    reader.insert(0, &wire, keep(&mut got));
    assert!(reader.next() >= wire.len() as u64);
    check(&got);
});
