//! The consumer's private table of packets without a fate: from claim to acknowledgement or loss.
//!
//! A table of fixed size indexed by position, without allocations. It covers several rounds of the ring; a packet still
//! without a fate after that is evicted and counts as lost.

use timeous_core::AduMeta;

const ROUNDS: usize = 8;
const AT_LEAST: usize = 1024;

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    position: u64,
    meta: AduMeta,
    open: bool,
}

/// Packets without a fate, by position.
#[derive(Debug)]
pub(crate) struct Unsettled {
    entries: Vec<Entry>,
    open: usize,
}

impl Unsettled {
    /// Creates a table for a ring of this many slots.
    pub(crate) fn new(slots: u32) -> Self {
        let size = (slots as usize * ROUNDS).max(AT_LEAST);
        Self { entries: vec![Entry::default(); size], open: 0 }
    }

    /// Adds a claimed packet. Returns the evicted one, if any.
    pub(crate) fn insert(&mut self, position: u64, meta: AduMeta) -> Option<AduMeta> {
        let entry = self.slot(position);
        // Eviction is rare: check it without copying the entry.
        let evicted = entry.open.then_some(entry.meta);
        *entry = Entry { position, meta, open: true };
        if evicted.is_some() {
            return evicted;
        }
        self.open += 1;
        None
    }

    /// Closes the entry of a packet whose fate is known; returns its metadata the first time.
    pub(crate) fn settle(&mut self, position: u64) -> Option<AduMeta> {
        let entry = self.slot(position);
        if !entry.open || entry.position != position {
            return None;
        }
        entry.open = false;
        let meta = entry.meta;
        self.open -= 1;
        Some(meta)
    }

    /// Whether the packet has no fate yet.
    pub(crate) fn is_open(&mut self, position: u64) -> bool {
        let entry = self.slot(position);
        entry.open && entry.position == position
    }

    /// Number of packets without a fate.
    pub(crate) fn len(&self) -> usize {
        self.open
    }

    /// Number of positions covered.
    pub(crate) fn memory(&self) -> u64 {
        self.entries.len() as u64
    }

    fn slot(&mut self, position: u64) -> &mut Entry {
        let mask = self.entries.len() - 1;
        &mut self.entries[position as usize & mask]
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
    fn a_packet_settles_once_and_gives_way_after_eight_rounds() {
        let mut table = Unsettled::new(2);
        assert_eq!(table.insert(5, meta(50)), None);
        assert_eq!(table.settle(5 + table.memory()), None, "another packet of the same entry");
        assert_eq!(table.insert(5 + table.memory(), meta(60)), Some(meta(50)));
        assert_eq!(table.settle(5), None);
        assert_eq!(table.settle(5 + table.memory()), Some(meta(60)));
        assert_eq!(table.settle(5 + table.memory()), None);
        assert_eq!(table.len(), 0);
    }
}
