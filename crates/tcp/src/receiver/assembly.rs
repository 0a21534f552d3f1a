//! Reassembly: segments in any order, overlapping and repeated, become one stream, in bounded memory.

use std::ops::Range;

use super::ranges::Ranges;
use super::ring::Ring;

/// Received, unread bytes: `[.., next)` without a gap, islands beyond.
///
/// The first copy of a byte counts: later copies are ignored.
#[derive(Debug)]
pub(super) struct Assembly {
    ring: Ring,
    next: u64,
    islands: Ranges,
}

/// Result of adding a range of bytes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Placed {
    /// Continues the stream; `filled` if an island was joined or others are left (RFC 5681 §4.2).
    InOrder { filled: bool },
    /// Part of this island now.
    Island(Range<u64>),
    /// Complete duplicate, part of this island.
    Known(Range<u64>),
    /// Too many islands.
    Refused,
}

impl Assembly {
    pub(super) const fn new(limit: usize, max_islands: usize) -> Self {
        Self { ring: Ring::new(limit), next: 0, islands: Ranges::new(max_islands) }
    }

    /// Returns the offset of the first missing byte.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// Returns the ranges received beyond the first gap.
    pub(super) const fn islands(&self) -> &Ranges {
        &self.islands
    }

    /// Adds `data`, not empty, at `at`, which is not before `next`: the caller has cut off earlier bytes.
    pub(super) fn insert(&mut self, at: u64, data: &[u8]) -> Placed {
        let span = at..at + data.len() as u64;
        if at == self.next {
            self.write(span.clone(), data);
            let had_islands = !self.islands.is_empty();
            let end = self.islands.take_through(span.end).unwrap_or(span.end);
            self.next = end;
            return Placed::InOrder { filled: had_islands };
        }
        if let Some(island) = self.islands.containing(at).filter(|island| island.end >= span.end) {
            return Placed::Known(island);
        }
        // The islands change only after the gaps between them were found.
        let gaps: Vec<_> = self.islands.gaps(span.clone()).collect();
        let Some(island) = self.islands.insert(span) else { return Placed::Refused };
        for gap in gaps {
            self.ring.write(gap.start, &data[(gap.start - at) as usize..(gap.end - at) as usize]);
        }
        Placed::Island(island)
    }

    fn write(&mut self, span: Range<u64>, data: &[u8]) {
        for gap in self.islands.gaps(span.clone()) {
            self.ring.write(gap.start, &data[(gap.start - span.start) as usize..(gap.end - span.start) as usize]);
        }
    }

    /// Ends the stream at `at`: bytes beyond are dropped.
    pub(super) fn truncate(&mut self, at: u64) {
        self.islands.truncate(at);
    }

    /// Appends the bytes of `span`, all of which were received.
    pub(super) fn read(&self, span: Range<u64>, out: &mut Vec<u8>) {
        self.ring.read(span, out);
    }

    /// Drops the bytes before `at`.
    pub(super) fn forget(&mut self, at: u64) {
        self.ring.forget(at);
    }

    /// Returns the memory used for the bytes.
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}
