//! Parser of records in a stream with holes: a record between two zeros is delivered as soon as it is complete.

use std::collections::BTreeMap;
use std::ops::Range;

use super::decode::{Counts, Datagram, Framing, Records};
use super::stretch::Stretch;

/// Memory limits of an [`Unordered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum payload of a datagram, in bytes.
    pub longest: usize,
    /// Maximum number of contiguous ranges (stretches).
    pub stretches: usize,
    /// Maximum number of bytes of incomplete records.
    pub held: usize,
}

impl Default for Limits {
    /// Returns datagrams as long as UDP's, a thousand holes, a megabyte.
    fn default() -> Self {
        Self { longest: 65_507, stretches: 1_024, held: 1 << 20 }
    }
}

/// Parser of records in a stream that comes in pieces, in any order, overlapping and repeated.
///
/// The first copy of each byte counts: later copies are ignored, as by a kernel's reassembly. Only bytes not yet
/// between two zeros are kept.
///
/// ```
/// use timeous_tcp::record::{Framing, Limits, Unordered, numbered};
/// let mut wire = Vec::new();
/// numbered(2, 0, b"first", &mut wire);
/// let first = wire.len();
/// numbered(2, 1, b"second", &mut wire);
/// let mut reader = Unordered::new(Framing::Numbered, Limits::default());
/// let mut got = Vec::new();
/// reader.insert(first as u64, &wire[first..], |datagram| got.push(datagram.payload.to_vec()));
/// reader.insert(0, &wire, |datagram| got.push(datagram.payload.to_vec()));
/// assert_eq!(got, [b"second".to_vec(), b"first".to_vec()]);
/// ```
#[derive(Debug)]
pub struct Unordered {
    records: Records,
    limits: Limits,
    /// Stretches by their first byte. No two of them touch.
    stretches: BTreeMap<u64, Stretch>,
    held: usize,
    refused: u64,
}

impl Unordered {
    /// Creates a parser with these limits.
    pub fn new(framing: Framing, limits: Limits) -> Self {
        let records = Records::new(framing, limits.longest);
        Self { records, limits, stretches: BTreeMap::new(), held: 0, refused: 0 }
    }

    /// Parses bytes at the stream offset `at`, and delivers each complete datagram.
    ///
    /// Bytes beyond the limits are refused and counted: their place stays a hole. Bytes that continue the stream before
    /// its first hole are never refused.
    pub fn insert(&mut self, at: u64, bytes: &[u8], mut deliver: impl FnMut(Datagram<'_>)) {
        let Some(end) = at.checked_add(bytes.len() as u64) else {
            self.refused += 1;
            return;
        };
        let mut from = at;
        while from < end {
            let hole = self.hole(from, end);
            if hole.is_empty() {
                break;
            }
            from = hole.end;
            let piece = &bytes[(hole.start - at) as usize..(hole.end - at) as usize];
            self.place(hole.start, piece, &mut deliver);
        }
    }

    /// Skips the holes before `upto`: the missing bytes will never come.
    pub fn skip_to(&mut self, upto: u64) {
        if self.hole(0, upto).is_empty() {
            return;
        }
        let later = self.stretches.split_off(&upto);
        let mut gone = std::mem::replace(&mut self.stretches, later);
        let last = gone.pop_last().map(|(_, stretch)| stretch);
        self.held -= gone.values().map(Stretch::held).sum::<usize>();
        let mut first = last.unwrap_or_else(|| Stretch::forgotten(upto));
        self.held -= first.held();
        if first.end >= upto {
            first.forget_head();
        } else {
            first = Stretch::forgotten(upto);
        }
        self.held += first.held();
        let end = first.end;
        self.stretches.insert(0, first);
        self.join_next(0, end, &mut |_| {});
    }

    /// Returns the offset of the first missing byte.
    pub fn next(&self) -> u64 {
        self.stretches.get(&0).map_or(0, |first| first.end)
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.records.counts
    }

    /// Returns the number of pieces refused because of the limits.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Returns the number of bytes buffered of incomplete records.
    pub fn held(&self) -> usize {
        self.held
    }

    #[cfg(test)]
    pub(super) fn stretches(&self) -> usize {
        self.stretches.len()
    }

    #[cfg(test)]
    pub(super) fn count_held(&self) -> usize {
        self.stretches.values().map(Stretch::held).sum()
    }

    /// Returns the first hole in `from..end`; empty if there is none.
    fn hole(&self, from: u64, end: u64) -> Range<u64> {
        let covering = self.stretches.range(..=from).next_back().map_or(0, |(_, stretch)| stretch.end);
        let start = from.max(covering).min(end);
        let next = self.stretches.range(start..).next().map_or(end, |(&start, _)| start);
        start..next.min(end)
    }

    /// Adds bytes to a hole.
    fn place(&mut self, at: u64, piece: &[u8], deliver: &mut dyn FnMut(Datagram<'_>)) {
        let before = self.stretches.range(..=at).next_back().filter(|(_, stretch)| stretch.end == at);
        let start = before.map_or(at, |(&start, _)| start);
        let is_new = before.is_none();
        if start > 0 && (is_new && self.stretches.len() >= self.limits.stretches || self.is_full(piece.len())) {
            self.refused += 1;
            return;
        }
        let stretch = self.stretches.entry(start).or_insert_with(|| match at {
            0 => Stretch::beginning(),
            _ => Stretch::within(at),
        });
        let held = stretch.held();
        stretch.extend(piece, &mut self.records, deliver);
        let end = stretch.end;
        self.held = self.held - held + stretch.held();
        self.join_next(start, end, deliver);
    }

    fn is_full(&self, more: usize) -> bool {
        self.held + more > self.limits.held
    }

    /// Joins the stretch at `start` with the one that begins at its end.
    fn join_next(&mut self, start: u64, end: u64, deliver: &mut dyn FnMut(Datagram<'_>)) {
        let Some(next) = self.stretches.remove(&end) else { return };
        let Some(stretch) = self.stretches.get_mut(&start) else { return };
        let held = stretch.held() + next.held();
        stretch.join(next, &mut self.records, deliver);
        self.held = self.held - held + stretch.held();
    }
}
