//! Captured segments, honest or arbitrary, beside a reader of their stream: each datagram is returned once, from
//! whichever source shows it first; no others are, unless somebody else wrote a valid record; memory is bounded.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use timeous_tcp::record::{Datagram, Framing, Limits, Tapped, numbered, numbered_len, pad};
use timeous_tcp::{Header, Options, ObservedConnection, Segment, Seq, Timestamps};

#[derive(Arbitrary, Debug)]
enum Step {
    /// A segment of the stream arrives, perhaps again.
    Arrives { at: u16, len: u16, stamp: Option<u32> },
    /// The host acknowledges up to this position.
    Acknowledges { upto: u16, window: u16 },
    /// The application reads this many bytes.
    Reads { len: u16 },
    /// Arbitrary segment, in either direction.
    Forged { sent: bool, bytes: Vec<u8> },
}

#[derive(Arbitrary, Debug)]
struct Input {
    first: u32,
    scale: u8,
    longest: u8,
    stretches: u8,
    held: u16,
    payloads: Vec<Vec<u8>>,
    padding: u8,
    steps: Vec<Step>,
}

struct Reader {
    tapped: Tapped,
    given: BTreeMap<u32, Vec<u8>>,
}

impl Reader {
    fn keep(given: &mut BTreeMap<u32, Vec<u8>>) -> impl FnMut(Datagram<'_>) {
        |datagram| {
            let before = given.insert(datagram.number.unwrap(), datagram.payload.to_vec());
            assert_eq!(before, None, "given twice");
        }
    }

    fn see(&mut self, overheard: &mut ObservedConnection, segment: &Segment<'_>) {
        if let Some((at, bytes)) = overheard.handle_arriving(segment) {
            self.tapped.see(at, bytes, Self::keep(&mut self.given));
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.tapped.push(bytes, Self::keep(&mut self.given));
    }
}

fuzz_target!(|input: Input| {
    let longest = usize::from(input.longest);
    let mut wire = Vec::new();
    for (number, payload) in input.payloads.iter().take(64).enumerate() {
        let payload = &payload[..payload.len().min(longest)];
        numbered(2, number as u32, payload, &mut wire);
        pad(usize::from(input.padding % 9), &mut wire);
    }
    let limits = Limits { longest, stretches: input.stretches.into(), held: input.held.into() };
    let mut reader = Reader { tapped: Tapped::new(Framing::Numbered, limits), given: BTreeMap::new() };
    let mut overheard = ObservedConnection::new(input.scale);
    let first = Seq::new(input.first);
    let (mut read, mut forged) = (0, false);
    for step in &input.steps {
        match step {
            Step::Arrives { at, len, stamp } => {
                let at = usize::from(*at).min(wire.len());
                let payload = &wire[at..wire.len().min(at + usize::from(*len))];
                let header = Header { ack: Some(Seq::new(9)), ..Header::new(1, 2, first + at as u32) };
                let timestamps = stamp.map(|value| Timestamps { value, echo: 0 });
                let options = Options { timestamps, ..Options::default() };
                reader.see(&mut overheard, &Segment { header, options, payload });
            }
            Step::Acknowledges { upto, window } => {
                // The first acknowledgement sets the origin of positions.
                let header = Header { ack: Some(first + u32::from(*upto)), window: *window, ..Header::new(2, 1, Seq::new(9)) };
                let segment = Segment { header, options: Options::default(), payload: &[] };
                if let Some(next) = overheard.handle_sent(&segment) {
                    reader.tapped.passed(next);
                }
            }
            Step::Reads { len } => {
                let end = wire.len().min(read + usize::from(*len));
                reader.push(&wire[read..end]);
                read = end;
            }
            Step::Forged { sent, bytes } => {
                let Ok(segment) = Segment::parse_trusted(bytes) else { continue };
                forged = true;
                if *sent {
                    if let Some(next) = overheard.handle_sent(&segment) {
                        reader.tapped.passed(next);
                    }
                } else {
                    reader.see(&mut overheard, &segment);
                }
            }
        }
        assert!(reader.tapped.held() <= limits.held + 2 * numbered_len(longest));
    }
    reader.push(&wire[read..]);
    if forged {
        return;
    }
    let expected: BTreeMap<u32, Vec<u8>> = (0..)
        .zip(input.payloads.iter().take(64))
        .map(|(number, payload)| (number, payload[..payload.len().min(longest)].to_vec()))
        .collect();
    assert_eq!(reader.given, expected);
});
