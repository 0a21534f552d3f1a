//! Parser of records in a stream that is read in order and whose segments are also captured: each datagram is delivered by whichever is
//! first.

use super::decode::{Counts, Datagram, Framing};
use super::ordered::Ordered;
use super::seen::Seen;
use super::unordered::{Limits, Unordered};

/// Maximum distance of a segment's record from the newest record of the stream, in records. Chosen by us: half of the window by which
/// duplicates are detected, so that no segment makes numbers of the stream count as old; a higher value lets more datagrams come early.
const MAX_AHEAD: i32 = 1 << 15;

/// Parser of the records of a stream and of its captured segments, which delivers each datagram once.
///
/// The bytes read in order from the socket are authoritative. Segments may be captured early, not at all, or with bytes that the kernel
/// will not accept: only their numbered or encrypted records are trusted, and without a valid segment a datagram
/// comes by the stream.
///
/// ```
/// use timeous_tcp::record::{Framing, Limits, Tapped, numbered};
/// let mut wire = Vec::new();
/// numbered(2, 0, b"first", &mut wire);
/// let first = wire.len();
/// numbered(2, 1, b"second", &mut wire);
/// let mut reader = Tapped::new(Framing::Numbered, Limits::default());
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
    /// Newest number of the stream; numbers count from zero.
    newest: u32,
    early: u64,
}

impl Tapped {
    /// Creates a parser that buffers segments within `limits`, and one record of the stream at most.
    pub fn new(framing: Framing, limits: Limits) -> Self {
        Self {
            stream: Ordered::new(framing.clone(), limits.longest),
            segments: Unordered::new(framing, limits),
            delivered: Seen::default(),
            newest: 0,
            early: 0,
        }
    }

    /// Parses the next bytes of the stream, and delivers each complete datagram that was not delivered before.
    pub fn push(&mut self, bytes: &[u8], mut deliver: impl FnMut(Datagram<'_>)) {
        let (delivered, newest) = (&mut self.delivered, &mut self.newest);
        self.stream.push(bytes, |datagram| {
            if let Some(number) = datagram.number.filter(|number| number.wrapping_sub(*newest) as i32 > 0) {
                *newest = number;
            }
            if datagram.number.is_some_and(|number| delivered.insert(number)) {
                deliver(datagram);
            }
        });
    }

    /// Parses a segment whose bytes begin at `at`, relative to any fixed place in the stream, and delivers each complete datagram that was
    /// not delivered before.
    pub fn see(&mut self, at: u64, bytes: &[u8], mut deliver: impl FnMut(Datagram<'_>)) {
        let (delivered, early, newest) = (&mut self.delivered, &mut self.early, self.newest);
        self.segments.insert(at, bytes, |datagram| {
            let is_near = |number: &u32| (number.wrapping_sub(newest) as i32) < MAX_AHEAD;
            if datagram.number.filter(is_near).is_some_and(|number| delivered.insert(number)) {
                *early += 1;
                deliver(datagram);
            }
        });
    }

    /// Skips everything before `upto`, relative to the same place as in [`see`](Self::see): it has arrived, and is not captured any more.
    pub fn passed(&mut self, upto: u64) {
        self.segments.skip_to(upto);
    }

    /// Returns the number of datagrams delivered by a segment before the stream.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Returns the counters of the stream: duplicates are those within the stream.
    pub fn counts(&self) -> &Counts {
        self.stream.counts()
    }

    /// Returns the counters of the segments.
    pub fn seen(&self) -> &Counts {
        self.segments.counts()
    }

    /// Returns the number of bytes buffered of incomplete records.
    pub fn held(&self) -> usize {
        self.stream.held() + self.segments.held()
    }
}
