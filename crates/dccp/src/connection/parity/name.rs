//! Which data a packet of parity is for.

use crate::options::{Opt, PARITY_MAP as MAP};
use crate::seq::Seq;

/// Type and length, and all else that the option says.
const BEFORE_MAP: usize = 6;

/// What the option Parity says, by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ParityName {
    /// The newest packet of the block was sent so many numbers before.
    pub(super) back: u16,
    /// Which of the block's parity packets this is.
    pub(super) index: u8,
    /// How many there are.
    pub(super) of: u8,
    /// Which numbers belong to the block, the newest in the lowest bit of the first byte.
    map: [u8; MAP],
}

impl ParityName {
    /// For the block of these numbers, oldest first, whose newest was sent `back` numbers ago.
    pub(super) fn of(seqs: &[Seq], back: u16, (index, of): (u8, u8)) -> Option<Self> {
        let newest = *seqs.last()?;
        let mut map = [0; MAP];
        for seq in seqs {
            let bit = usize::try_from(newest.distance_from(*seq)).ok()?;
            *map.get_mut(bit / 8)? |= 1 << (bit % 8);
        }
        Some(Self { back, index, of, map })
    }

    /// What the option says; `None` if that cannot be.
    pub(crate) fn read(back: u16, index: u8, of: u8, map: &[u8]) -> Option<Self> {
        let mut whole = [0; MAP];
        whole.get_mut(..map.len())?.copy_from_slice(map);
        (whole[0] & 1 == 1 && index < of).then_some(Self { back, index, of, map: whole })
    }

    /// The option, and how many bytes it takes.
    pub(super) fn option(&self) -> (Opt<'_>, usize) {
        let len = self.map.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        let option = Opt::Parity { back: self.back, index: self.index, of: self.of, map: &self.map[..len] };
        (option, BEFORE_MAP + len)
    }

    /// Whether both are for one block whose newest packet is the same.
    pub(super) fn is_same_block(&self, other: &Self) -> bool {
        (self.map, self.of) == (other.map, other.of)
    }

    /// The numbers of the block, oldest first.
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
