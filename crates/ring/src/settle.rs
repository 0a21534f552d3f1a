//! The consumer's private table of packets without a fate: from claim to acknowledgement or loss.
//!
//! It covers at most several rounds of the ring; a packet still without a fate after that is evicted and counts as lost.

use timeous_core::AduMeta;

use crate::position_map::PositionMap;

/// Rounds of the ring that are covered. Chosen by us: several round trips of packets in flight; a higher value takes
/// more memory.
const ROUNDS: u64 = 8;
/// Positions that are covered at least, for small rings. Chosen by us: a higher value takes more memory.
const AT_LEAST: u64 = 1024;

/// Packets without a fate, by position: `None` for those that have one.
#[derive(Debug)]
pub(crate) struct Unsettled {
    entries: PositionMap<Option<AduMeta>>,
    open: usize,
    /// Maximum number of positions.
    most: u64,
}

impl Unsettled {
    /// Creates a table for a ring of this many slots.
    pub(crate) fn new(slots: u32) -> Self {
        Self { entries: PositionMap::new(0), open: 0, most: (u64::from(slots) * ROUNDS).max(AT_LEAST) }
    }

    /// Adds a claimed packet, later than all before. Returns the evicted one, if any.
    pub(crate) fn insert(&mut self, position: u64, meta: AduMeta) -> Option<AduMeta> {
        *self.entries.entry(position) = Some(meta);
        self.open += 1;
        let mut evicted = None;
        while self.entries.len() as u64 > self.most {
            evicted = self.entries.pop_first().flatten();
            self.open -= usize::from(evicted.is_some());
        }
        evicted
    }

    /// Closes the entry of a packet whose fate is known; returns its metadata the first time.
    pub(crate) fn settle(&mut self, position: u64) -> Option<AduMeta> {
        let meta = self.entries.get_mut(position)?.take()?;
        self.open -= 1;
        while self.entries.get(self.entries.first()).is_some_and(Option::is_none) {
            self.entries.pop_first();
        }
        Some(meta)
    }

    /// Whether the packet has no fate yet.
    pub(crate) fn is_open(&self, position: u64) -> bool {
        self.entries.get(position).is_some_and(Option::is_some)
    }

    /// Number of packets without a fate.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    /// Positions of the packets without a fate.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        let first = self.entries.first();
        (first..first + self.entries.len() as u64).filter(|&position| self.is_open(position))
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::AduSeq;

    use super::*;

    fn meta(seq: u64) -> AduMeta {
        AduMeta { seq: AduSeq(seq), ..AduMeta::default() }
    }

    #[test]
    fn a_packet_settles_once_and_gives_way_after_many_others() {
        let mut table = Unsettled::new(2);
        assert_eq!(table.insert(5, meta(50)), None);
        assert_eq!(table.settle(5 + AT_LEAST), None, "unknown");
        assert_eq!(table.insert(6, meta(60)), None);
        assert_eq!(table.insert(5 + AT_LEAST, meta(70)), Some(meta(50)));
        assert_eq!(table.settle(5), None);
        assert_eq!(table.positions().collect::<Vec<_>>(), [6, 5 + AT_LEAST]);
        assert_eq!(table.settle(6), Some(meta(60)));
        assert_eq!((table.settle(5 + AT_LEAST), table.settle(5 + AT_LEAST)), (Some(meta(70)), None));
        assert_eq!((table.len(), table.entries.len()), (0, 0));
        assert_eq!(table.insert(9 + AT_LEAST, meta(80)), None);
    }
}
