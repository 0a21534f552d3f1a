//! Records out of a stream that comes in order, as a plain socket gives it.

use super::decode::{Counts, Datagram, Framing, Records};
use super::encode::sealed_len;
use super::stretch::Piece;
use super::unordered::Limits;

/// Finds the records of a stream that comes in order.
///
/// ```
/// use timeous_tcp::record::{Framing, Ordered, pad, sealed};
/// let mut wire = Vec::new();
/// sealed(2, 0, b"hello", &mut wire);
/// pad(9, &mut wire);
/// let mut reader = Ordered::new(Framing::Sealed, 1_500);
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
    /// A reader of records whose payload is at most `longest` bytes. It holds no more than one of them.
    pub fn new(framing: Framing, longest: usize) -> Self {
        Self { records: Records::new(framing, sealed_len(longest)), open: Piece::default() }
    }

    /// Takes in what comes next in the stream, and gives each datagram that is complete.
    pub fn push(&mut self, bytes: &[u8], mut deliver: impl FnMut(Datagram<'_>)) {
        self.open.extend(bytes, &mut self.records, &mut deliver);
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.records.counts
    }

    /// How many bytes wait for the end of their record.
    pub fn held(&self) -> usize {
        self.open.len()
    }
}

impl Default for Ordered {
    fn default() -> Self {
        Self::new(Framing::default(), Limits::default().longest)
    }
}
