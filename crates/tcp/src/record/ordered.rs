//! Parser of records in an in-order stream, as read from a plain socket.

use super::decode::{Counts, Datagram, Framing, Records};
use super::stretch::Piece;
use super::unordered::Limits;

/// Parser of records in an in-order stream.
///
/// ```
/// use timeous_tcp::record::{Framing, Ordered, pad, numbered};
/// let mut wire = Vec::new();
/// numbered(2, 0, b"hello", &mut wire);
/// pad(9, &mut wire);
/// let mut reader = Ordered::new(Framing::Numbered, 1_500);
/// let mut got = Vec::new();
/// for byte in wire {
///     reader.push(&[byte], |datagram| got.push(datagram.payload.to_vec()));
/// }
/// assert_eq!(got, [b"hello"]);
/// ```
#[derive(Debug)]
pub struct Ordered {
    records: Records,
    open: Piece,
}

impl Ordered {
    /// Creates a parser of records with at most `longest` bytes of payload. It buffers one of them at most.
    pub fn new(framing: Framing, longest: usize) -> Self {
        Self { records: Records::new(framing, longest), open: Piece::default() }
    }

    /// Parses the next bytes of the stream, and delivers each complete datagram.
    pub fn push(&mut self, bytes: &[u8], mut deliver: impl FnMut(Datagram<'_>)) {
        self.open.extend(bytes, &mut self.records, &mut deliver);
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.records.counts
    }

    /// Returns the number of bytes buffered of an incomplete record.
    pub fn held(&self) -> usize {
        self.open.len()
    }
}

impl Default for Ordered {
    fn default() -> Self {
        Self::new(Framing::default(), Limits::default().longest)
    }
}
