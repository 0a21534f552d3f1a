//! Records of a stream that is read in order and whose segments are seen before: whichever shows a datagram first.

use super::decode::{Counts, Datagram, Framing};
use super::ordered::Ordered;
use super::seen::Seen;
use super::unordered::{Limits, Unordered};

/// Finds the records of a stream twice, and delivers each datagram once.
///
/// What a socket reads in order is what the peer's data are. Segments may be seen before the kernel has put them in order,
/// or not at all, and with bytes that it will not take: of them only sealed records are believed, so that whatever is wrong
/// with them, a datagram comes by the stream.
///
/// ```
/// use timeous_tcp::record::{Limits, Tapped, sealed};
/// let mut wire = Vec::new();
/// sealed(2, 0, b"first", &mut wire);
/// let first = wire.len();
/// sealed(2, 1, b"second", &mut wire);
/// let mut reader = Tapped::new(Limits::default());
/// let mut got = Vec::new();
/// reader.see(first as u64, &wire[first..], |datagram| got.push(datagram.payload.to_vec()));
/// reader.push(&wire, |datagram| got.push(datagram.payload.to_vec()));
/// assert_eq!(got, [b"second".to_vec(), b"first".to_vec()]);
/// assert_eq!(reader.early(), 1);
/// ```
#[derive(Debug)]
pub struct Tapped {
    stream: Ordered,
    segments: Unordered,
    delivered: Seen,
    early: u64,
}

impl Tapped {
    /// A reader that holds no more of segments than `limits` says, and of the stream no more than a record.
    pub fn new(limits: Limits) -> Self {
        Self {
            stream: Ordered::new(Framing::Sealed, limits.longest),
            segments: Unordered::new(Framing::Sealed, limits),
            delivered: Seen::default(),
            early: 0,
        }
    }

    /// Takes in what comes next in the stream, and gives each datagram that is complete and was not given before.
    pub fn push(&mut self, bytes: &[u8], mut deliver: impl FnMut(Datagram<'_>)) {
        let delivered = &mut self.delivered;
        self.stream.push(bytes, |datagram| {
            if datagram.number.is_some_and(|number| delivered.insert(number)) {
                deliver(datagram);
            }
        });
    }

    /// Sees a segment whose bytes begin at `at`, counted from anywhere in the stream, and gives each datagram that is
    /// complete and was not given before.
    pub fn see(&mut self, at: u64, bytes: &[u8], mut deliver: impl FnMut(Datagram<'_>)) {
        let (delivered, early) = (&mut self.delivered, &mut self.early);
        self.segments.insert(at, bytes, |datagram| {
            if datagram.number.is_some_and(|number| delivered.insert(number)) {
                *early += 1;
                deliver(datagram);
            }
        });
    }

    /// Everything before `upto`, counted as in [`see`](Self::see), has come: what was not seen of it will not be.
    pub fn passed(&mut self, upto: u64) {
        self.segments.skip_to(upto);
    }

    /// How many datagrams were given by a segment, before the stream.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// What was counted in the stream: duplicates are those that came twice there.
    pub fn counts(&self) -> &Counts {
        self.stream.counts()
    }

    /// What was counted in the segments.
    pub fn seen(&self) -> &Counts {
        self.segments.counts()
    }

    /// How many bytes are held of records that are not complete.
    pub fn held(&self) -> usize {
        self.stream.held() + self.segments.held()
    }
}
