//! Reading a segment: a view of the bytes that brought it.

use super::checksum::{Addresses, checksum};
use super::flags::Flags;
use super::header::Header;
use super::options::Options;
use crate::seq::Seq;

/// A segment, as a view of the bytes that brought it.
///
/// ```
/// use timeous_tcp::{Addresses, Flags, Header, Options, Segment, Seq, segment};
/// let addresses = Addresses { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() };
/// let header = Header { ack: Some(Seq::new(9)), window: 512, ..Header::new(5001, 80, Seq::new(7)) };
/// let mut bytes = Vec::new();
/// let start = segment::begin(&header, &Options::default(), &mut bytes)?;
/// bytes.extend_from_slice(b"hello");
/// segment::finish(&mut bytes, start, addresses)?;
///
/// let parsed = Segment::parse(&bytes, addresses)?;
/// assert_eq!(parsed.header, header);
/// assert_eq!(parsed.payload, b"hello");
/// assert_eq!(parsed.end(), Seq::new(12));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// The header without its options.
    pub header: Header,
    /// The options that this TCP knows.
    pub options: Options,
    /// The data.
    pub payload: &'a [u8],
}

/// Why bytes are no segment: the peer's mistake, the network's, or an attack. They are dropped without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// Shorter than any header.
    #[error("a segment of {length} bytes is shorter than any TCP header; drop it")]
    TooShort {
        /// The segment's bytes.
        length: usize,
    },
    /// The data begin before the header ends.
    #[error("a data offset of {offset} bytes cuts into the 20 bytes of the header; drop the segment")]
    OffsetTooSmall {
        /// Where the data begin.
        offset: usize,
    },
    /// The data begin after the segment ends.
    #[error("a data offset of {offset} bytes is past the segment's {length}; drop the segment")]
    OffsetPastEnd {
        /// Where the data begin.
        offset: usize,
        /// The segment's bytes.
        length: usize,
    },
    /// The checksum is wrong.
    #[error("the checksum is wrong; drop the segment")]
    Checksum,
}

impl<'a> Segment<'a> {
    /// Reads a segment, the TCP header on, that travelled between these addresses.
    ///
    /// # Errors
    /// A [`WireError`] says why it must be dropped.
    pub fn parse(bytes: &'a [u8], addresses: Addresses) -> Result<Self, WireError> {
        let segment = Self::read(bytes)?;
        if checksum(bytes, addresses) != 0 {
            return Err(WireError::Checksum);
        }
        Ok(segment)
    }

    /// [`Segment::parse`] without a look at the checksum, for bytes that somebody else has vouched for: a device that
    /// verified it, or a host that hands the segment to itself.
    ///
    /// # Errors
    /// A [`WireError`] other than [`WireError::Checksum`].
    pub fn parse_trusted(bytes: &'a [u8]) -> Result<Self, WireError> {
        Self::read(bytes)
    }

    fn read(bytes: &'a [u8]) -> Result<Self, WireError> {
        let length = bytes.len();
        let fixed: &[u8; Header::MIN_LEN] = bytes.first_chunk().ok_or(WireError::TooShort { length })?;
        let offset = usize::from(fixed[12] >> 4) * 4;
        if offset < Header::MIN_LEN {
            return Err(WireError::OffsetTooSmall { offset });
        }
        let (head, payload) = bytes.split_at_checked(offset).ok_or(WireError::OffsetPastEnd { offset, length })?;
        let header = read_header(fixed);
        let options = Options::decode(&head[Header::MIN_LEN..], header.flags.contains(Flags::SYN));
        Ok(Self { header, options, payload })
    }

    /// SEG.LEN: how many numbers it takes, SYN and FIN counted (RFC 9293 §3.3.1).
    pub fn seq_len(&self) -> u32 {
        let controls = u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN));
        self.payload.len() as u32 + controls
    }

    /// The number after the last one that it takes.
    pub fn end(&self) -> Seq {
        self.header.seq + self.seq_len()
    }

    /// The number of its first byte of data: a SYN comes before it.
    pub fn data_seq(&self) -> Seq {
        self.header.seq + u32::from(self.has(Flags::SYN))
    }

    /// Whether all of these control bits are set.
    pub const fn has(&self, flags: Flags) -> bool {
        self.header.flags.contains(flags)
    }
}

fn read_header(fixed: &[u8; Header::MIN_LEN]) -> Header {
    let short = |at: usize| u16::from_be_bytes([fixed[at], fixed[at + 1]]);
    let long = |at: usize| u32::from_be_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
    let bits = fixed[13];
    Header {
        source_port: short(0),
        dest_port: short(2),
        seq: Seq::new(long(4)),
        ack: (bits & Flags::ACK_BIT != 0).then(|| Seq::new(long(8))),
        flags: Flags::from_bits(bits),
        window: short(14),
        urgent: (bits & Flags::URG_BIT != 0).then(|| short(18)),
    }
}
