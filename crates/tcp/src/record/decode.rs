//! Parsing of a record between two zeros: checked, and delivered once.

use timeous_core::SubStream;

use super::encode::is_for_data;
use super::seen::Seen;
use super::wire::{CHECKSUM, PADDING, SEALED, SEALED_HEAD};

/// Accepted framings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Framing {
    /// Sealed records only: corrupt or duplicate records are not delivered.
    #[default]
    Sealed,
    /// The paper's plain records, too, from a sender that never changes a retransmission.
    Plain,
}

/// Datagram of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Sub-stream: [`TIMED`](super::TIMED) or one of the application's.
    pub substream: SubStream,
    /// Number assigned by the sender; a plain record has none.
    pub number: Option<u32>,
    /// Payload.
    pub payload: &'a [u8],
}

/// Counters of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Datagrams delivered.
    pub delivered: u64,
    /// Sealed records whose number was delivered before, or is older than the duplicate window.
    pub duplicates: u64,
    /// Padding records.
    pub padding: u64,
    /// Chunks that are no records, or corrupt ones.
    pub damaged: u64,
    /// Chunks longer than a record may be.
    pub overlong: u64,
}

/// Parser of chunks, with duplicate detection.
#[derive(Debug)]
pub(super) struct Records {
    framing: Framing,
    /// Maximum chunk length, in bytes.
    pub(super) longest: usize,
    seen: Seen,
    scratch: Vec<u8>,
    pub(super) counts: Counts,
}

impl Records {
    pub(super) fn new(framing: Framing, longest: usize) -> Self {
        Self { framing, longest, seen: Seen::default(), scratch: Vec::new(), counts: Counts::default() }
    }

    /// Parses the chunk between two zeros.
    pub(super) fn read(&mut self, chunk: &[u8], deliver: &mut dyn FnMut(Datagram<'_>)) {
        if chunk.is_empty() {
            return;
        }
        if chunk.len() > self.longest {
            self.counts.overlong += 1;
            return;
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(chunk);
        let len = cobs::decode_in_place(&mut self.scratch).unwrap_or(0);
        match parse(&self.scratch[..len]) {
            Some(Content::Padding) => self.counts.padding += 1,
            Some(Content::Data(datagram)) => match datagram.number {
                Some(number) if !self.seen.insert(number) => self.counts.duplicates += 1,
                None if self.framing == Framing::Sealed => self.counts.damaged += 1,
                _ => {
                    self.counts.delivered += 1;
                    deliver(datagram);
                }
            },
            None => self.counts.damaged += 1,
        }
    }
}

enum Content<'a> {
    Padding,
    Data(Datagram<'a>),
}

fn parse(content: &[u8]) -> Option<Content<'_>> {
    let (&first, data) = content.split_first()?;
    if first == PADDING {
        return Some(Content::Padding);
    }
    let substream = first & !SEALED;
    if !is_for_data(substream) {
        return None;
    }
    let substream = SubStream(substream);
    if first & SEALED == 0 {
        return Some(Content::Data(Datagram { substream, number: None, payload: data }));
    }
    let (body, checksum) = content.split_last_chunk::<CHECKSUM>()?;
    let number = body.get(1..SEALED_HEAD)?.first_chunk()?;
    if crc32fast::hash(body) != u32::from_be_bytes(*checksum) {
        return None;
    }
    let number = Some(u32::from_be_bytes(*number));
    Some(Content::Data(Datagram { substream, number, payload: &body[SEALED_HEAD..] }))
}
