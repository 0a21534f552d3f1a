//! SACKed ranges of the stream (RFC 2018), merged.

use std::collections::VecDeque;
use std::ops::Range;

/// Disjoint, non-adjacent ranges in order.
#[derive(Debug, Default)]
pub(super) struct Sacked(VecDeque<Range<u64>>);

impl Sacked {
    /// Adds `range`, and reports its new parts to `fresh`, in order: an acknowledgement repeats known blocks, and only
    /// new ones may cost time.
    pub(super) fn insert(&mut self, range: Range<u64>, mut fresh: impl FnMut(Range<u64>)) {
        if range.is_empty() {
            return;
        }
        // The ranges that touch it.
        let first = self.0.partition_point(|known| known.end < range.start);
        let mut after = first;
        let mut merged = range.clone();
        let mut from = range.start;
        while let Some(known) = self.0.get(after).filter(|known| known.start <= range.end) {
            if from < known.start {
                fresh(from..known.start);
            }
            from = from.max(known.end);
            merged = merged.start.min(known.start)..merged.end.max(known.end);
            after += 1;
        }
        if from < range.end {
            fresh(from..range.end);
        }
        match after - first {
            0 => self.0.insert(first, merged),
            1 => self.0[first] = merged,
            _ => {
                self.0[first] = merged;
                self.0.drain(first + 1..after);
            }
        }
    }

    /// Removes everything below `offset`.
    pub(super) fn forget_below(&mut self, offset: u64) {
        while self.0.front().is_some_and(|range| range.end <= offset) {
            self.0.pop_front();
        }
        if let Some(first) = self.0.front_mut() {
            first.start = first.start.max(offset);
        }
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the end of the highest range.
    pub(super) fn highest(&self) -> Option<u64> {
        self.0.back().map(|range| range.end)
    }

    /// Returns the first gap at or after `from`, below the highest range.
    pub(super) fn next_gap(&self, from: u64) -> Option<Range<u64>> {
        let mut at = self.0.partition_point(|range| range.end <= from);
        let mut start = from;
        loop {
            let range = self.0.get(at)?;
            if start < range.start {
                return Some(start..range.start);
            }
            start = range.end;
            at += 1;
        }
    }

    /// Returns the offset below which all gaps are lost: `IsLost` of RFC 6675 §4, by the number of ranges or bytes
    /// above. The walk ends after `ranges` ranges.
    pub(super) fn lost_below(&self, ranges: usize, bytes: u64) -> Option<u64> {
        let mut above = 0;
        for (count, range) in (1..).zip(self.0.iter().rev()) {
            above += range.end - range.start;
            if count >= ranges || above > bytes {
                return Some(range.start);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn insert(sacked: &mut Sacked, range: Range<u64>) -> Vec<(u64, u64)> {
        let mut fresh = Vec::new();
        sacked.insert(range, |piece| fresh.push((piece.start, piece.end)));
        fresh
    }

    #[test]
    fn only_what_is_new_is_told() {
        let mut sacked = Sacked::default();
        assert_eq!(insert(&mut sacked, 10..20), [(10, 20)]);
        assert_eq!(insert(&mut sacked, 10..25), [(20, 25)]);
        assert_eq!(insert(&mut sacked, 30..40), [(30, 40)]);
        assert_eq!(insert(&mut sacked, 5..50), [(5, 10), (25, 30), (40, 50)]);
        assert_eq!(insert(&mut sacked, 5..50), []);
        assert_eq!(sacked.0.front(), Some(&(5..50)));
        sacked.forget_below(7);
        assert_eq!((sacked.highest(), sacked.0.len()), (Some(50), 1));
    }

    #[test]
    fn gaps_lie_between_ranges() {
        let mut sacked = Sacked::default();
        insert(&mut sacked, 10..20);
        insert(&mut sacked, 30..40);
        assert_eq!(sacked.next_gap(0), Some(0..10));
        assert_eq!(sacked.next_gap(10), Some(20..30));
        assert_eq!(sacked.next_gap(25), Some(25..30));
        assert_eq!(sacked.next_gap(30), None);
    }

    #[test]
    fn three_ranges_or_more_than_two_segments_above_mean_loss() {
        let mut sacked = Sacked::default();
        for start in [100, 300, 500] {
            assert_eq!(sacked.lost_below(3, 2_000), None);
            insert(&mut sacked, start..start + 10);
        }
        assert_eq!(sacked.lost_below(3, 2_000), Some(100), "RFC 6675 §4: DupThresh discontiguous sequences");
        insert(&mut sacked, 500..2_510);
        assert_eq!(sacked.lost_below(3, 2_000), Some(500), "more than (DupThresh - 1) * SMSS bytes");
    }

    proptest! {
        #[test]
        fn agrees_with_a_set_of_bytes(ranges in prop::collection::vec((0_u64..200, 1_u64..40), 1..30)) {
            let (mut sacked, mut model) = (Sacked::default(), BTreeSet::new());
            for (start, len) in ranges {
                let range = start..start + len;
                let new: BTreeSet<u64> = insert(&mut sacked, range.clone()).into_iter().flat_map(|(start, end)| start..end).collect();
                let expected: BTreeSet<u64> = range.filter(|&byte| model.insert(byte)).collect();
                prop_assert_eq!(new, expected);
                let held: BTreeSet<u64> = sacked.0.iter().cloned().flatten().collect();
                prop_assert_eq!(&held, &model);
                let apart = sacked.0.iter().zip(sacked.0.iter().skip(1)).all(|(a, b)| a.end < b.start);
                prop_assert!(apart);
            }
        }
    }
}
