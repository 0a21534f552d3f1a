//! Reassembly: segments in any order, overlapping and repeated, become one stream within a bounded room.

use std::ops::Range;

use super::ranges::Ranges;
use super::ring::Ring;

/// Bytes that arrived and that nobody has read: `[.., next)` without a gap, islands beyond.
///
/// A byte that arrived stays as it is: what comes a second time for the same place is not looked at.
#[derive(Debug)]
pub(super) struct Assembly {
    ring: Ring,
    next: u64,
    islands: Ranges,
}

/// What became of a stretch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Placed {
    /// The stream went on; `filled` if an island was joined or others are left (RFC 5681 §4.2).
    InOrder { filled: bool },
    /// It is part of this island now.
    Island(Range<u64>),
    /// All of it was there, as part of this island.
    Known(Range<u64>),
    /// There are too many islands.
    Refused,
}

impl Assembly {
    pub(super) const fn new(limit: usize, max_islands: usize) -> Self {
        Self { ring: Ring::new(limit), next: 0, islands: Ranges::new(max_islands) }
    }

    /// The first byte that is missing.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// What arrived beyond the first gap.
    pub(super) const fn islands(&self) -> &Ranges {
        &self.islands
    }

    /// Puts `data`, not empty, at its place `at`, which is not before `next`: the caller has cut off what was.
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
        // The islands change only after the bytes between them were told from those that are there.
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

    /// The stream ends at `at`: what arrived beyond is forgotten.
    pub(super) fn truncate(&mut self, at: u64) {
        self.islands.truncate(at);
    }

    /// Appends the bytes of `span`, all of which arrived.
    pub(super) fn read(&self, span: Range<u64>, out: &mut Vec<u8>) {
        self.ring.read(span, out);
    }

    /// The bytes before `at` are not asked for any more.
    pub(super) fn forget(&mut self, at: u64) {
        self.ring.forget(at);
    }

    /// How much memory the bytes take.
    pub(super) fn capacity(&self) -> usize {
        self.ring.capacity()
    }
}
