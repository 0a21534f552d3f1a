//! List of encoded options, ready for a header.

use super::kind;
use super::opt::{MAX_OPTION_DATA, Opt};
use super::parse::Options;
use crate::packet_type::PacketType;

/// Encoded options, with a size limit.
///
/// ```
/// use timeous_dccp::{Opt, OptionList};
/// let mut list = OptionList::new();
/// list.push(&Opt::NdpCount(2))?;
/// assert_eq!(list.as_bytes(), [37, 3, 2]);
/// # Ok::<(), timeous_dccp::ListFull>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OptionList {
    bytes: Vec<u8>,
    limit: usize,
}

/// Error: an option does not fit; put it on a later packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an option of {needed} bytes does not fit into the {room} bytes left for options")]
pub struct ListFull {
    /// Size of the option.
    pub needed: usize,
    /// Bytes left for options.
    pub room: usize,
}

impl OptionList {
    /// Maximum option bytes in any header: 1020 bytes less the shortest header (RFC 4340 §5).
    pub const MAX_BYTES: usize = 1020 - 12;

    /// Creates an empty list with the maximum limit.
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), limit: Self::MAX_BYTES }
    }

    /// Creates an empty list of at most `limit` bytes, capped at 1008; padding is not counted.
    pub fn with_limit(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit: limit.min(Self::MAX_BYTES) }
    }

    /// Empties the list, keeping its memory, and sets its limit, capped at 1008 bytes.
    pub fn reset(&mut self, limit: usize) {
        self.bytes.clear();
        self.limit = limit.min(Self::MAX_BYTES);
    }

    /// Encoded options so far, without the final padding.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Raises the limit by `bytes`.
    pub(crate) fn widen(&mut self, bytes: usize) {
        self.limit = (self.limit + bytes).min(Self::MAX_BYTES);
    }

    /// Bytes still free.
    pub fn room(&self) -> usize {
        self.limit - self.bytes.len()
    }

    /// Whether there is no option yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Decodes the options, as a receiver of `packet` would.
    pub fn iter(&self, packet: PacketType) -> Options<'_> {
        Options::new(&self.bytes, packet)
    }

    /// Appends an option.
    ///
    /// # Errors
    /// [`ListFull`] if it does not fit, or if it is longer than an option can be; the list stays as it was.
    pub fn push(&mut self, opt: &Opt<'_>) -> Result<(), ListFull> {
        self.push_all(std::slice::from_ref(opt))
    }

    /// Appends options that belong together, such as Mandatory and the option it marks: all or none.
    ///
    /// # Errors
    /// [`ListFull`] as for [`OptionList::push`].
    pub fn push_all(&mut self, opts: &[Opt<'_>]) -> Result<(), ListFull> {
        let start = self.bytes.len();
        let room = self.room();
        for opt in opts {
            let fits = encode(opt, &mut self.bytes);
            let needed = self.bytes.len() - start;
            if !fits || needed > room {
                self.bytes.truncate(start);
                return Err(ListFull { needed, room });
            }
        }
        Ok(())
    }
}

impl Default for OptionList {
    fn default() -> Self {
        Self::new()
    }
}

/// Encodes one option; `false` if its data are too long for its length byte.
pub(super) fn encode(opt: &Opt<'_>, out: &mut Vec<u8>) -> bool {
    let kind = opt.kind();
    match *opt {
        Opt::Padding | Opt::Mandatory | Opt::SlowReceiver => {
            out.push(kind);
            true
        }
        Opt::Change { feature, values, .. } | Opt::Confirm { feature, values, .. } => {
            put(kind, &[&[feature], values], out)
        }
        Opt::InitCookie(data) | Opt::AckVector { vector: data, .. } | Opt::DataDropped(data) => put(kind, &[data], out),
        Opt::CcidSpecific { kind, data } => kind >= kind::FIRST_CCID_SPECIFIC && put(kind, &[data], out),
        Opt::NdpCount(count) => {
            // "The smallest option format that can hold the NDP Count SHOULD be used" (RFC 4340 §7.7).
            let bytes = count.min((1 << 48) - 1).to_be_bytes();
            let first = bytes.iter().position(|&b| b != 0).unwrap_or(7);
            put(kind, &[&bytes[first..]], out)
        }
        Opt::Timestamp(at) | Opt::SentAt(at) => put(kind, &[&at.get().to_be_bytes()], out),
        Opt::TimestampEcho { echo, elapsed } => {
            let elapsed = elapsed.get().to_be_bytes();
            let elapsed = match elapsed {
                [0, 0, 0, 0] => &[],
                [0, 0, ..] => &elapsed[2..],
                _ => &elapsed[..],
            };
            put(kind, &[&echo.get().to_be_bytes(), elapsed], out)
        }
        Opt::ElapsedTime(elapsed) => {
            let elapsed = elapsed.get().to_be_bytes();
            put(kind, &[if let [0, 0, ..] = elapsed { &elapsed[2..] } else { &elapsed }], out)
        }
        Opt::Fragment => put(kind, &[], out),
        Opt::Repeat(back) => put(kind, &[&back.to_be_bytes()], out),
        Opt::Parity { back, index, of, map } => put(kind, &[&back.to_be_bytes(), &[index, of], map], out),
        Opt::DataChecksum(crc) => put(kind, &[&crc.to_be_bytes()], out),
    }
}

fn put(kind: u8, parts: &[&[u8]], out: &mut Vec<u8>) -> bool {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    out.push(kind);
    out.push((length + 2) as u8);
    for part in parts {
        out.extend_from_slice(part);
    }
    length <= MAX_OPTION_DATA
}
