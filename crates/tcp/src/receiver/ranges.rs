//! A bounded set of disjoint ranges of a stream: the bytes that have arrived.

use std::collections::BTreeMap;
use std::ops::Range;

/// Disjoint ranges that do not touch each other, by their first byte. Their number is bounded, against hostile peers.
#[derive(Debug)]
pub(super) struct Ranges {
    ends: BTreeMap<u64, u64>,
    max: usize,
}

impl Ranges {
    pub(super) const fn new(max: usize) -> Self {
        Self { ends: BTreeMap::new(), max }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the range that contains `at`.
    pub(super) fn containing(&self, at: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ends.range(..=at).next_back()?;
        (at < end).then_some(start..end)
    }

    /// Iterates over the missing ranges within `span`, in order.
    pub(super) fn gaps(&self, span: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let mut at = self.containing(span.start).map_or(span.start, |covering| covering.end);
        let mut after = self.ends.range(span.start..);
        std::iter::from_fn(move || {
            while at < span.end {
                let (&start, &end) = after.next().unwrap_or((&span.end, &span.end));
                let gap = at..start.min(span.end);
                at = at.max(end);
                if !gap.is_empty() {
                    return Some(gap);
                }
            }
            None
        })
    }

    /// Adds a range and returns the merged range that contains it. Returns `None`, without a change, if it would be a
    /// new range and the bound is reached.
    pub(super) fn insert(&mut self, span: Range<u64>) -> Option<Range<u64>> {
        let before = self.ends.range(..=span.start).next_back().filter(|&(_, &end)| end >= span.start);
        let start = before.map_or(span.start, |(&start, _)| start);
        let mut end = span.end;
        let stands_alone = self.ends.range(start..=end).next().is_none();
        if stands_alone && self.ends.len() >= self.max {
            return None;
        }
        while let Some((&joined, &joined_end)) = self.ends.range(start..=end).next() {
            self.ends.remove(&joined);
            end = end.max(joined_end);
        }
        self.ends.insert(start, end);
        Some(start..end)
    }

    /// Removes the ranges that begin at `at` or before, and returns the last one's end if it is after `at`.
    pub(super) fn take_through(&mut self, at: u64) -> Option<u64> {
        let mut taken = None;
        while let Some(first) = self.ends.first_entry().filter(|first| *first.key() <= at) {
            taken = Some(first.remove());
        }
        taken.filter(|&end| end > at)
    }

    /// Removes everything from `at` on.
    pub(super) fn truncate(&mut self, at: u64) {
        self.ends.split_off(&at);
        if let Some(mut last) = self.ends.last_entry() {
            let end = (*last.get()).min(at);
            last.insert(end);
        }
    }
}
