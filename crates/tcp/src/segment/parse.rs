//! Parsing of a segment into a view of its bytes.

use super::checksum::{Addresses, checksum};
use super::flags::Flags;
use super::header::Header;
use super::options::Options;
use crate::seq::Seq;

/// A parsed segment, which borrows its payload from the received bytes.
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
    /// The options that this implementation knows.
    pub options: Options,
    /// The payload.
    pub payload: &'a [u8],
}

/// Error of parsing: a fault of the peer or the network, or an attack. The segment is dropped without an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    /// Shorter than a TCP header.
    #[error("a segment of {length} bytes is shorter than any TCP header; drop it")]
    TooShort {
        /// Length of the segment in bytes.
        length: usize,
    },
    /// The Data Offset lies within the fixed header.
    #[error("a data offset of {offset} bytes cuts into the 20 bytes of the header; drop the segment")]
    OffsetTooSmall {
        /// The Data Offset in bytes.
        offset: usize,
    },
    /// The Data Offset lies beyond the segment's end.
    #[error("a data offset of {offset} bytes is past the segment's {length}; drop the segment")]
    OffsetPastEnd {
        /// The Data Offset in bytes.
        offset: usize,
        /// Length of the segment in bytes.
        length: usize,
    },
    /// The checksum is wrong.
    #[error("the checksum is wrong; drop the segment")]
    Checksum,
}

impl<'a> Segment<'a> {
    /// Parses a segment, from the TCP header on, with the addresses of its IP header.
    ///
    /// # Errors
    /// A [`WireError`], after which the segment must be dropped.
    pub fn parse(bytes: &'a [u8], addresses: Addresses) -> Result<Self, WireError> {
        let segment = Self::read(bytes)?;
        if checksum(bytes, addresses) != 0 {
            return Err(WireError::Checksum);
        }
        Ok(segment)
    }

    /// Parses a segment without a check of its checksum: for segments that a device has verified, or that never left
    /// the host.
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

    /// Returns SEG.LEN: the sequence numbers that the segment occupies, including SYN and FIN (RFC 9293 §3.3.1).
    pub fn seq_len(&self) -> u32 {
        let controls = u32::from(self.has(Flags::SYN)) + u32::from(self.has(Flags::FIN));
        self.payload.len() as u32 + controls
    }

    /// Returns the sequence number after the segment's last one.
    pub fn end(&self) -> Seq {
        self.header.seq + self.seq_len()
    }

    /// Returns the sequence number of the first byte of payload, which follows a SYN.
    pub fn data_seq(&self) -> Seq {
        self.header.seq + u32::from(self.has(Flags::SYN))
    }

    /// Returns whether all of these control bits are set.
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
