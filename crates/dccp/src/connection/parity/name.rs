//! Which data a packet of parity is for.

use crate::options::Opt;
use crate::seq::Seq;

/// Most bytes of the map of a block: a bit for each number.
const MAP: usize = 8;

/// What the option Parity says, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParityName {
    /// The newest packet of the block was sent so many numbers before.
    pub(super) back: u16,
    /// Which of the block's parity packets this is.
    pub(super) index: u8,
    /// How many there are.
    pub(super) of: u8,
    /// Which numbers belong to the block, the newest in the lowest bit.
    map: u64,
}

impl ParityName {
    /// For the block of these numbers, oldest first, whose newest was sent `back` numbers ago.
    pub(super) fn of(seqs: &[Seq], back: u16, (index, of): (u8, u8)) -> Option<Self> {
        let newest = *seqs.last()?;
        let mut map = 0_u64;
        for seq in seqs {
            map |= 1_u64.checked_shl(u32::try_from(newest.distance_from(*seq)).ok()?)?;
        }
        Some(Self { back, index, of, map })
    }

    /// What the option says; `None` if that cannot be.
    pub(crate) fn read(back: u16, index: u8, of: u8, map: &[u8]) -> Option<Self> {
        let mut bytes = [0; MAP];
        bytes.get_mut(..map.len())?.copy_from_slice(map);
        let map = u64::from_le_bytes(bytes);
        (map & 1 == 1 && index < of).then_some(Self { back, index, of, map })
    }

    /// The map as the option carries it.
    pub(super) fn map(&self) -> ([u8; MAP], usize) {
        (self.map.to_le_bytes(), MAP - self.map.leading_zeros() as usize / 8)
    }

    /// The option.
    pub(super) fn option<'a>(&self, map: &'a [u8]) -> Opt<'a> {
        Opt::Parity { back: self.back, index: self.index, of: self.of, map }
    }

    /// Whether both are for one block whose newest packet is the same.
    pub(super) fn is_same_block(&self, other: &Self) -> bool {
        (self.map, self.of) == (other.map, other.of)
    }

    /// The numbers of the block, oldest first.
    pub(super) fn block(&self, newest: Seq) -> impl Iterator<Item = Seq> + use<> {
        let map = self.map;
        (0..64_u64).rev().filter(move |bit| map >> bit & 1 == 1).map(move |bit| newest - bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_by_a_map_of_its_numbers() {
        let seqs = [3, 4, 9, 40].map(Seq::new);
        let name = ParityName::of(&seqs, 2, (0, 3)).unwrap();
        let (bytes, len) = name.map();
        assert_eq!(len, 5);
        let read = ParityName::read(2, 0, 3, &bytes[..len]).unwrap();
        assert_eq!(read, name);
        assert!(read.block(Seq::new(40)).eq(seqs));
        assert!(ParityName::of(&[Seq::new(0), Seq::new(64)], 0, (0, 1)).is_none(), "too far apart");
        assert!(ParityName::read(0, 3, 3, &[1]).is_none() && ParityName::read(0, 0, 1, &[2]).is_none());
        assert!(ParityName::read(0, 0, 1, &[1; 9]).is_none() && ParityName::read(0, 0, 1, &[]).is_none());
    }
}
