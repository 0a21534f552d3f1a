//! Framing of datagrams in the byte stream: as records, each behind its length (RFC 4571), or not at all.

use timeous_core::{AduMeta, SubStream};
use timeous_seal::Secrets;
use timeous_tcp::record::{self, Framing, Limits, Ordered, Tapped};

use crate::config::{TcpConfig, TcpFraming};

/// Maximum datagram length in the two-byte length field, in bytes (RFC 4571 §2).
const MOST_RFC4571: usize = u16::MAX as usize;

/// Maximum length of an ADU that every receiver takes, whatever its `longest` is, in bytes.
const MOST_ADU: usize = MOST_RFC4571;
/// Maximum length of an ADU without framing, in bytes. Chosen by us: a higher value takes more memory, a lower one refuses keyframes.
pub const MAX_UNFRAMED: usize = 1 << 20;

/// Returns the payload length up to which records are changed in place, and share segments.
pub(crate) fn longest_payload(config: &TcpConfig) -> usize {
    match config.framing {
        TcpFraming::Records | TcpFraming::None => config.longest,
        TcpFraming::Rfc4571 => config.longest.min(MOST_RFC4571),
    }
}

/// Framing of outgoing datagrams.
#[derive(Debug)]
pub(crate) struct Writer {
    framing: TcpFraming,
    records: record::Writer,
    next: u32,
}

impl Writer {
    /// Creates a writer; with `secrets`, of encrypted records.
    pub(crate) fn new(framing: TcpFraming, secrets: Option<&Secrets>) -> Self {
        Self { framing, records: record::Writer::new(secrets), next: 0 }
    }

    /// Returns the maximum length of an ADU, in bytes.
    pub(crate) fn most_adu(&self) -> usize {
        if self.framing == TcpFraming::None { MAX_UNFRAMED } else { MOST_ADU }
    }

    /// Returns the maximum length in the stream of a datagram of at most `longest` bytes, framing included.
    pub(crate) fn longest_record(&self, longest: usize) -> usize {
        match self.framing {
            TcpFraming::Records => self.records.record_len(longest),
            TcpFraming::Rfc4571 => 2 + longest.min(MOST_RFC4571),
            TcpFraming::None => longest,
        }
    }

    /// Returns the maximum payload whose record takes at most `bytes` bytes.
    pub(crate) fn room(&self, bytes: usize) -> Option<usize> {
        match self.framing {
            TcpFraming::Records => self.records.room(bytes),
            TcpFraming::Rfc4571 => bytes.checked_sub(2).filter(|&room| room > 0),
            TcpFraming::None => Some(bytes).filter(|&room| room > 0),
        }
    }

    /// Allocates the number of the next datagram, which it keeps for all of its copies.
    pub(crate) fn number(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1);
        number
    }

    /// Appends a framed datagram.
    pub(crate) fn write(&mut self, meta: &AduMeta, number: u32, payload: &[u8], out: &mut Vec<u8>) {
        match self.framing {
            TcpFraming::Records => self.records.write(record::substream_of(meta), number, payload, out),
            TcpFraming::Rfc4571 => {
                let len = u16::try_from(payload.len()).expect("nothing is pulled that is longer than it can say");
                out.extend_from_slice(&len.to_be_bytes());
                out.extend_from_slice(payload);
            }
            TcpFraming::None => out.extend_from_slice(payload),
        }
    }

    /// Appends a control message to the other engine. Records only.
    pub(crate) fn control(&mut self, number: u32, body: &[u8], out: &mut Vec<u8>) {
        self.records.control(number, body, out);
    }

    /// Returns whether its records are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.records.is_encrypted()
    }

    /// Appends `len` bytes of padding. Records only.
    pub(crate) fn pad(&mut self, len: usize, out: &mut Vec<u8>) {
        self.records.pad(len, out);
    }

    /// Appends a copy of a record; `false`: there is none. Records only.
    pub(crate) fn copy(&mut self, record: &[u8], out: &mut Vec<u8>) -> bool {
        self.records.copy(record, out)
    }
}

/// Returns the length of a payload in its record, with the sub-stream if that is there, too.
pub(crate) fn len_within(meta: &AduMeta, payload: &[u8]) -> usize {
    payload.len() + record::substream_len(record::substream_of(meta))
}

/// Parser of incoming datagrams.
#[derive(Debug)]
pub(crate) enum Reader {
    Records(Ordered),
    /// Records, also read from segments that a packet tap shows early.
    Tapped(Box<Tapped>),
    Rfc4571(Lengths),
    /// Bytes as they come.
    Unframed,
}

impl Reader {
    pub(crate) fn new(config: &TcpConfig, secrets: Option<&Secrets>) -> Self {
        match config.framing {
            TcpFraming::Records => Self::Records(Ordered::new(Framing::of_received(secrets), longest_read(config))),
            TcpFraming::Rfc4571 => Self::Rfc4571(Lengths::default()),
            TcpFraming::None => Self::Unframed,
        }
    }

    /// Creates a reader of records that also reads segments from a packet tap.
    pub(crate) fn tapped(config: &TcpConfig, secrets: Option<&Secrets>) -> Self {
        let limits = Limits { longest: longest_read(config), ..Limits::default() };
        Self::Tapped(Box::new(Tapped::new(Framing::of_received(secrets), limits)))
    }

    /// Parses the next bytes of the stream, and delivers each complete datagram.
    pub(crate) fn push(&mut self, bytes: &[u8], mut deliver: impl FnMut(record::Datagram<'_>)) {
        match self {
            Self::Records(records) => records.push(bytes, deliver),
            Self::Tapped(records) => records.push(bytes, deliver),
            Self::Rfc4571(lengths) => lengths.push(bytes, |payload| deliver(bare(payload))),
            Self::Unframed => deliver(bare(bytes)),
        }
    }

    /// Returns the numbers of invalid and of duplicate records.
    pub(crate) fn refused(&self) -> (u64, u64) {
        let counts = match self {
            Self::Records(records) => records.counts(),
            Self::Tapped(records) => records.counts(),
            Self::Rfc4571(_) | Self::Unframed => return (0, 0),
        };
        (counts.damaged + counts.overlong, counts.duplicates)
    }

    /// Returns the number of datagrams delivered by a tapped segment before the stream.
    pub(crate) fn early(&self) -> u64 {
        match self {
            Self::Tapped(records) => records.early(),
            Self::Records(_) | Self::Rfc4571(_) | Self::Unframed => 0,
        }
    }
}

/// Returns a datagram of a framing without sub-streams.
fn bare(payload: &[u8]) -> record::Datagram<'_> {
    record::Datagram { substream: SubStream::default(), is_control: false, number: None, payload }
}

/// Maximum datagram length that is accepted: a peer may be configured for longer datagrams than this end.
fn longest_read(config: &TcpConfig) -> usize {
    config.longest.max(MOST_RFC4571)
}

/// Parser of datagrams behind their lengths (RFC 4571 §2). Buffers one datagram at most.
#[derive(Debug, Default)]
pub(crate) struct Lengths {
    open: Vec<u8>,
}

impl Lengths {
    fn push(&mut self, mut bytes: &[u8], mut deliver: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let wanted = self.wanted();
            let (now, later) = bytes.split_at(bytes.len().min(wanted - self.open.len()));
            self.open.extend_from_slice(now);
            bytes = later;
            // The length may be complete only now.
            if self.open.len() >= 2 && self.open.len() == self.wanted() {
                // A null packet is not delivered (§2).
                if self.open.len() > 2 {
                    deliver(&self.open[2..]);
                }
                self.open.clear();
            }
        }
    }

    /// Returns the length of the open datagram with its prefix, in bytes; 2 until the prefix is complete.
    fn wanted(&self) -> usize {
        self.open.first_chunk().map_or(2, |&len| 2 + usize::from(u16::from_be_bytes(len)))
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::Instant;

    use super::*;

    fn both_ways(framing: TcpFraming, step: usize) {
        let config = TcpConfig { framing, ..TcpConfig::default() };
        let (mut writer, mut reader) = (Writer::new(framing, None), Reader::new(&config, None));
        let sent: Vec<Vec<u8>> = (1..300).map(|n| (0..n).map(|at| (at % 5) as u8).collect()).collect();
        let mut wire = Vec::new();
        for payload in &sent {
            let number = writer.number();
            writer.write(&AduMeta::default(), number, payload, &mut wire);
        }
        let mut got = Vec::new();
        for chunk in wire.chunks(step) {
            reader.push(chunk, |datagram| got.push(datagram.payload.to_vec()));
        }
        assert_eq!(got, sent, "in steps of {step}");
    }

    #[test]
    fn what_is_written_is_read_however_it_is_cut() {
        for framing in [TcpFraming::Records, TcpFraming::Rfc4571] {
            for step in [1, 2, 3, 7, 1_000, 1 << 20] {
                both_ways(framing, step);
            }
        }
    }

    #[test]
    fn rfc_4571_lies_behind_its_length_and_a_null_packet_is_none() {
        let mut wire = Vec::new();
        Writer::new(TcpFraming::Rfc4571, None).write(&AduMeta::default(), 0, b"rtp", &mut wire);
        assert_eq!(wire, b"\0\x03rtp");
        let mut got = 0;
        Lengths::default().push(&[0, 0, 0, 0], |_| got += 1);
        assert_eq!(got, 0);
    }

    #[test]
    fn without_framing_the_stream_is_the_applications_bytes() {
        let config = TcpConfig { framing: TcpFraming::None, ..TcpConfig::default() };
        let (mut writer, mut wire) = (Writer::new(TcpFraming::None, None), Vec::new());
        for payload in [&b"one"[..], b"", b"\0two"] {
            writer.write(&AduMeta::default(), 0, payload, &mut wire);
        }
        assert_eq!((&wire[..], writer.longest_record(9), writer.room(0)), (&b"one\0two"[..], 9, None));
        let mut got = Vec::new();
        Reader::new(&config, None).push(b"GET /", |datagram| got.push(datagram.payload.to_vec()));
        assert_eq!(got, [b"GET /"]);
    }

    #[test]
    fn every_substream_reaches_the_receiver_and_none_is_taken_for_a_message() {
        let config = TcpConfig::default();
        let (mut writer, mut reader) = (Writer::new(config.framing, None), Reader::new(&config, None));
        let (mut wire, mut got) = (Vec::new(), Vec::new());
        for own in 0..=255 {
            let deadline = Some(Instant::FAR_FUTURE);
            let meta = AduMeta { substream: SubStream(own), deadline, ..AduMeta::default() };
            let (number, before) = (writer.number(), wire.len());
            writer.write(&meta, number, b"data", &mut wire);
            assert_eq!(wire.len() - before, record::numbered_len(len_within(&meta, b"data")));
        }
        reader.push(&wire, |datagram| {
            assert!(!datagram.is_control && datagram.payload == b"data");
            got.push(datagram.substream.0);
        });
        assert!(got.into_iter().eq(0..=255));
        let number = writer.number();
        writer.control(number, b"end", &mut wire);
        reader.push(&wire[wire.len() - 20..], |datagram| assert!(datagram.is_control));
    }
}
