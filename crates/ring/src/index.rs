//! Index arithmetic modulo 2^32, and the word that holds `kern_i` and `umod_i`.
//!
//! Positions count packets since the ring's creation in 64 bits and are never reused; shared memory has their low 32
//! bits where two share a word. With a power of two of slots a position is masked to its slot, and the wrap of the low
//! bits is harmless. Unlike indexes of 0..N, positions show an error of whole rounds.

/// `kern_i` and `umod_i`, as stored in the shared word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    /// Oldest packet not yet claimed for sending.
    pub(crate) kern: u32,
    /// Oldest packet that the producer may change.
    pub(crate) umod: u32,
}

impl Packed {
    /// Packs two positions.
    pub(crate) fn new(kern: u64, umod: u64) -> Self {
        Self { kern: kern as u32, umod: umod as u32 }
    }

    /// Decodes the shared word.
    pub(crate) fn from_bits(bits: u64) -> Self {
        Self { kern: bits as u32, umod: (bits >> 32) as u32 }
    }

    /// Encodes the shared word. `umod_i` is in the upper half: adding to it cannot carry into `kern_i`.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.umod) << 32 | u64::from(self.kern)
    }

    /// Increment of the word that moves `umod_i` forward by `packets`.
    pub(crate) fn umod_step(packets: u64) -> u64 {
        packets << 32
    }
}

/// First position at or after `base` whose low 32 bits are `low`.
pub(crate) fn at_or_after(base: u64, low: u32) -> u64 {
    base + u64::from(low.wrapping_sub(base as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_survive_the_wrap_of_their_low_bits() {
        let base = u64::from(u32::MAX) - 1;
        for step in 0..5 {
            assert_eq!(at_or_after(base, (base + step) as u32), base + step);
        }
    }

    #[test]
    fn moving_umod_over_the_wrap_leaves_kern_alone() {
        let word = Packed::new(7, u64::from(u32::MAX));
        let moved = Packed::from_bits(word.bits().wrapping_add(Packed::umod_step(2)));
        assert_eq!(moved, Packed { kern: 7, umod: 1 });
    }
}
