//! Parsing of a record between two zeros: checked, and delivered once.

use timeous_core::SubStream;
use timeous_seal::{Cipher, OpeningKey, Secret, Secrets};

use super::encode::{is_of_head, numbered_len};
use super::encrypted::{encrypted_len, open};
use super::seen::Seen;
use super::wire::{CHECKSUM, ENCRYPTED_HEAD, NUMBERED, NUMBERED_HEAD, PADDING};
use super::wire::{CONTROL, WIDE};

/// Accepted framings.
#[derive(Clone, Debug, Default)]
pub enum Framing {
    /// Numbered records only: corrupt or duplicate records are not delivered.
    #[default]
    Numbered,
    /// The paper's plain records, too, from a sender that never changes a retransmission.
    Plain,
    /// Encrypted records only, by this cipher, with this secret of the direction.
    Encrypted(Cipher, Secret),
}

impl Framing {
    /// Returns the framing of the peer's records: encrypted if there are `secrets`, else numbered. Plain ones are not
    /// accepted: a part of a torn record may look like one.
    #[must_use]
    pub fn of_received(secrets: Option<&Secrets>) -> Self {
        secrets.map_or(Self::Numbered, |secrets| Self::Encrypted(secrets.cipher, secrets.opening.clone()))
    }

    /// Also accepts plain records, from a sender that never changes a retransmission; encrypted ones are the only ones all the same.
    #[must_use]
    pub fn with_plain(self) -> Self {
        if matches!(self, Self::Numbered) { Self::Plain } else { self }
    }

    /// Returns the framing of the own records.
    #[must_use]
    pub fn of_sent(secrets: Option<&Secrets>) -> Self {
        secrets.map_or(Self::Numbered, |secrets| Self::Encrypted(secrets.cipher, secrets.sealing.clone()))
    }

    /// Returns the maximum length on the wire of a record with a payload of `len` bytes.
    #[must_use]
    pub fn record_len(&self, len: usize) -> usize {
        match self {
            Self::Numbered | Self::Plain => numbered_len(len),
            Self::Encrypted(..) => encrypted_len(len),
        }
    }
}

/// Datagram of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// Sub-stream: [`TIMED`](super::TIMED) or one of the application's.
    pub substream: SubStream,
    /// A message of the other end, on [`CONTROL`].
    pub is_control: bool,
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
    /// Numbered and encrypted records whose number was delivered before, or is older than the duplicate window.
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
    form: Form,
    /// Maximum chunk length, in bytes.
    pub(super) longest: usize,
    seen: Seen,
    scratch: Vec<u8>,
    plaintext: Vec<u8>,
    pub(super) counts: Counts,
}

/// Form of the records.
#[derive(Debug)]
enum Form {
    Numbered,
    Plain,
    Encrypted(Box<OpeningKey>),
}

impl Records {
    /// Creates a parser of records with a payload of at most `longest` bytes.
    pub(super) fn new(framing: Framing, longest: usize) -> Self {
        // A sub-stream may take a byte of the payload.
        let longest = framing.record_len(longest + 1);
        let form = match framing {
            Framing::Numbered => Form::Numbered,
            Framing::Plain => Form::Plain,
            Framing::Encrypted(cipher, secret) => Form::Encrypted(Box::new(OpeningKey::new(cipher, secret))),
        };
        let (scratch, plaintext) = (Vec::new(), Vec::new());
        Self { form, longest, seen: Seen::default(), scratch, plaintext, counts: Counts::default() }
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
        let content = match &mut self.form {
            Form::Numbered | Form::Plain => parse(&self.scratch[..len]),
            Form::Encrypted(key) => {
                self.plaintext.clear();
                open(key, &self.scratch[..len], &mut self.plaintext).then(|| parse_plaintext(&self.plaintext)).flatten()
            }
        };
        match content {
            Some(Content::Padding) => self.counts.padding += 1,
            Some(Content::Data(datagram)) => match datagram.number {
                Some(number) if !self.seen.insert(number) => self.counts.duplicates += 1,
                None if !matches!(self.form, Form::Plain) => self.counts.damaged += 1,
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
    let substream = first & !NUMBERED;
    if !is_of_head(substream) {
        return None;
    }
    if first & NUMBERED == 0 {
        return datagram(substream, None, data);
    }
    let (body, checksum) = content.split_last_chunk::<CHECKSUM>()?;
    let number = body.get(1..NUMBERED_HEAD)?.first_chunk()?;
    if crc32fast::hash(body) != u32::from_be_bytes(*checksum) {
        return None;
    }
    datagram(substream, Some(u32::from_be_bytes(*number)), &body[NUMBERED_HEAD..])
}

/// Finds the sub-stream of a record, in its head or before its data.
fn datagram(head: u8, number: Option<u32>, data: &[u8]) -> Option<Content<'_>> {
    let (substream, payload) = match head {
        WIDE => data.split_first().map(|(&first, rest)| (first, rest))?,
        head => (head, data),
    };
    let (substream, is_control) = (SubStream(substream), head == CONTROL);
    is_of_head(head).then_some(Content::Data(Datagram { substream, is_control, number, payload }))
}

/// Parses what was encrypted.
fn parse_plaintext(plaintext: &[u8]) -> Option<Content<'_>> {
    let (&substream, data) = plaintext.split_first()?;
    if substream == PADDING {
        return Some(Content::Padding);
    }
    let (number, payload) = data.split_first_chunk::<{ ENCRYPTED_HEAD - 1 }>()?;
    datagram(substream, Some(u32::from_be_bytes(*number)), payload)
}
