//! Bytes of the receive window in a ring buffer that grows as far as it is used.

use std::ops::Range;

/// Minimum allocation, in bytes. Chosen by us: a higher value takes more memory for an idle connection.
const MIN_BYTES: usize = 4_096;

/// Bytes by stream offset: those before `start` are dropped.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Vec<u8>,
    limit: usize,
    start: u64,
    /// Offset behind the last byte written.
    end: u64,
}

impl Ring {
    /// Creates an empty ring that grows up to `limit` bytes, the maximum distance of a write from the start.
    pub(super) const fn new(limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, start: 0, end: 0 }
    }

    /// Writes `data` at offset `at`, not before the start.
    pub(super) fn write(&mut self, at: u64, data: &[u8]) {
        debug_assert!(at >= self.start, "bytes are written once, and before they are forgotten");
        let end = at + data.len() as u64;
        self.reserve((end - self.start) as usize);
        let (first, second) = self.places(at..end);
        let (head, tail) = data.split_at(first.len());
        self.bytes[first].copy_from_slice(head);
        self.bytes[second].copy_from_slice(tail);
        self.end = self.end.max(end);
    }

    /// Appends the bytes of `span` to `out`: they were written, and not dropped.
    pub(super) fn read(&self, span: Range<u64>, out: &mut Vec<u8>) {
        if !span.is_empty() {
            let (first, second) = self.places(span);
            out.extend_from_slice(&self.bytes[first]);
            out.extend_from_slice(&self.bytes[second]);
        }
    }

    /// Drops the bytes before `at`.
    pub(super) fn forget(&mut self, at: u64) {
        self.start = at;
        self.end = self.end.max(at);
    }

    /// Returns the allocated memory.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the position of `span`, in two pieces, as it may wrap.
    fn places(&self, span: Range<u64>) -> (Range<usize>, Range<usize>) {
        let size = self.bytes.len();
        let from = (span.start % size as u64) as usize;
        let len = (span.end - span.start) as usize;
        let first = len.min(size - from);
        (from..from + first, 0..len - first)
    }

    fn reserve(&mut self, needed: usize) {
        if needed <= self.bytes.len() {
            return;
        }
        let mut kept = Vec::new();
        self.read(self.start..self.end, &mut kept);
        let size = (2 * self.bytes.len()).max(MIN_BYTES).min(self.limit).max(needed);
        self.bytes = vec![0; size];
        let (first, second) = self.places(self.start..self.end);
        let (head, tail) = kept.split_at(first.len());
        self.bytes[first].copy_from_slice(head);
        self.bytes[second].copy_from_slice(tail);
    }
}
