//! The Parity option: identifies the data that a parity packet covers.

use crate::options::{Opt, PARITY_MAP as MAP};
use crate::seq::Seq;

/// Size of the option without its map, in bytes: type, length, distance (2), index and number of parity packets.
const FIXED_LEN: usize = 6;

/// Contents of the Parity option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParityName {
    /// Distance in sequence numbers to the newest data packet of the block.
    pub(crate) back: u16,
    /// Index of this parity packet in its block.
    pub(super) index: u8,
    /// Number of parity packets of the block.
    pub(super) of: u8,
    /// Bit map of the block's sequence numbers; the newest is the lowest bit of the first byte.
    map: [u8; MAP],
}

impl ParityName {
    /// Describes the block of `seqs`, oldest first, whose newest was sent `back` numbers ago; `None` if it spans too
    /// much.
    pub(super) fn of(seqs: &[Seq], back: u16, (index, of): (u8, u8)) -> Option<Self> {
        let newest = *seqs.last()?;
        let mut map = [0; MAP];
        for seq in seqs {
            let bit = usize::try_from(newest.distance_from(*seq)).ok()?;
            *map.get_mut(bit / 8)? |= 1 << (bit % 8);
        }
        Some(Self { back, index, of, map })
    }

    /// Checks the fields of a received option; `None` if they are inconsistent.
    pub(crate) fn read(back: u16, index: u8, of: u8, map: &[u8]) -> Option<Self> {
        let mut whole = [0; MAP];
        whole.get_mut(..map.len())?.copy_from_slice(map);
        (whole[0] & 1 == 1 && index < of).then_some(Self { back, index, of, map: whole })
    }

    /// Returns the option and its size in bytes.
    pub(crate) fn option(&self) -> (Opt<'_>, usize) {
        let len = self.map.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let option = Opt::Parity { back: self.back, index: self.index, of: self.of, map: &self.map[..len] };
        (option, FIXED_LEN + len)
    }

    /// Whether both describe the same block, given the same newest packet.
    pub(super) fn is_same_block(&self, other: &Self) -> bool {
        (self.map, self.of) == (other.map, other.of)
    }

    /// Returns the number of data and parity packets of the block.
    pub(super) fn shards(&self) -> usize {
        let data: u32 = self.map.iter().map(|byte| byte.count_ones()).sum();
        data as usize + usize::from(self.of)
    }

    /// Returns the sequence numbers of the block, oldest first.
    pub(super) fn block(&self, newest: Seq) -> impl Iterator<Item = Seq> + use<> {
        let map = self.map;
        let is_in = move |bit: &usize| map[bit / 8] >> (bit % 8) & 1 == 1;
        (0..MAP * 8).rev().filter(is_in).map(move |bit| newest - bit as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_by_a_map_of_its_numbers() {
        for (newest, len) in [(40, 5), (10, 1), (194, 24)] {
            let seqs = [3, 4, 9, newest].map(Seq::new);
            let name = ParityName::of(&seqs, 2, (0, 3)).unwrap();
            let (Opt::Parity { back: 2, index: 0, of: 3, map }, _) = name.option() else { panic!("{name:?}") };
            assert_eq!(map.len(), len, "no longer than it has to be");
            let read = ParityName::read(2, 0, 3, map).unwrap();
            assert_eq!(read, name);
            assert!(read.block(Seq::new(newest)).eq(seqs));
        }
        assert!(ParityName::of(&[Seq::new(0), Seq::new(192)], 0, (0, 1)).is_none(), "too far apart");
        assert!(ParityName::read(0, 3, 3, &[1]).is_none() && ParityName::read(0, 0, 1, &[2]).is_none());
        assert!(ParityName::read(0, 0, 1, &[1; MAP + 1]).is_none() && ParityName::read(0, 0, 1, &[]).is_none());
    }
}
