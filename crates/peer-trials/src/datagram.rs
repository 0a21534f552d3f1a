//! Common header of every peer's datagrams, for one evaluation of all.
//!
//! It is text without a zero byte: framings that escape zeros leave it unchanged, and its first letters are found in a
//! capture, whatever a protocol puts before it.

use timeous::core::Instant;

/// Start of a header.
const MAGIC: &[u8] = b"TIMEOUS:";
/// Contents of a probe, which shows that the path is open.
pub(crate) const PROBE: &[u8] = b"TIMEOUS-PROBE";
/// Contents of the last datagram.
pub(crate) const END: &[u8] = b"TIMEOUS-END";
/// Maximum number of references in a header.
const REFERENCES: usize = 4;

/// Header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Frame number, from one.
    pub(crate) frame: u32,
    /// Index of the piece in its frame, from zero.
    pub(crate) piece: u16,
    /// Number of pieces of the frame.
    pub(crate) pieces: u16,
    /// `D` (IDR), `I`, `P` or `B`.
    pub(crate) kind: u8,
    /// Value relative to other frames.
    pub(crate) priority: u8,
    /// Time at which the source sent it, by the host's monotonic clock.
    pub(crate) at: Instant,
    /// Frames that it refers to; zero for none.
    pub(crate) references: [u32; REFERENCES],
}

impl Header {
    /// Length in bytes.
    pub(crate) const LEN: usize = MAGIC.len() + 8 + 4 + 4 + 1 + 2 + 16 + 8 * REFERENCES;

    /// Encodes a datagram of `len` bytes, at least the header's length.
    pub(crate) fn datagram(&self, len: usize) -> Vec<u8> {
        let Self { frame, piece, pieces, kind, priority, at, references: [a, b, c, d] } = self;
        let (kind, at) = (char::from(*kind), at.as_nanos());
        let text =
            format!("{frame:08x}{piece:04x}{pieces:04x}{kind}{priority:02x}{at:016x}{a:08x}{b:08x}{c:08x}{d:08x}");
        let mut bytes = [MAGIC, text.as_bytes()].concat();
        bytes.resize(len.max(Self::LEN), b'.');
        bytes
    }

    /// Decodes the header at the beginning of `bytes`.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = std::str::from_utf8(bytes.get(MAGIC.len()..Self::LEN)?).ok()?;
        let mut take = |digits: usize| {
            let (text, after) = rest.split_at_checked(digits)?;
            rest = after;
            Some(text)
        };
        let mut number = |digits| u64::from_str_radix(take(digits)?, 16).ok();
        if !bytes.starts_with(MAGIC) {
            return None;
        }
        let (frame, piece, pieces) = (number(8)? as u32, number(4)? as u16, number(4)? as u16);
        let kind = *take(1)?.as_bytes().first()?;
        let mut number = |digits| u64::from_str_radix(take(digits)?, 16).ok();
        let (priority, at) = (number(2)? as u8, Instant::from_nanos(number(16)?));
        let references = [number(8)? as u32, number(8)? as u32, number(8)? as u32, number(8)? as u32];
        Some(Self { frame, piece, pieces, kind, priority, at, references })
    }

    /// All complete headers within `bytes`.
    pub(crate) fn all_in(bytes: &[u8]) -> Vec<Self> {
        let starts = bytes.windows(MAGIC.len()).enumerate().filter(|(_, window)| *window == MAGIC);
        starts.filter_map(|(at, _)| Self::read(&bytes[at..])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        let at = Instant::from_nanos(u64::MAX - 1);
        Header { frame: 7, piece: 3, pieces: 900, kind: b'B', priority: 200, at, references: [6, 0, 9, u32::MAX] }
    }

    #[test]
    fn a_header_is_read_as_it_was_written_and_holds_no_zero() {
        let bytes = header().datagram(1_000);
        assert_eq!((bytes.len(), Header::read(&bytes)), (1_000, Some(header())));
        assert!(!bytes.contains(&0), "a framing that escapes zeros would change it");
        assert_eq!(header().datagram(0).len(), Header::LEN, "it is never cut");
        assert_eq!(Header::read(&bytes[..Header::LEN - 1]), None);
        assert_eq!(Header::read(PROBE), None);
    }

    #[test]
    fn headers_are_found_behind_what_a_protocol_puts_before_them() {
        let second = Header { piece: 4, ..header() };
        let bytes = [b"\x00\x01lead".to_vec(), header().datagram(200), b"\xff".to_vec(), second.datagram(90)].concat();
        assert_eq!(Header::all_in(&bytes), [header(), second]);
        assert_eq!(Header::all_in(&bytes[..bytes.len() - 40]), [header()], "one that is cut is none");
    }
}
