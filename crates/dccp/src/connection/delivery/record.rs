//! Record of delivered data, so that a retransmission is delivered once, in bounded memory.

use crate::seq::Seq;

/// Sequence numbers for which deliveries are remembered; older data is treated as delivered (docs/design/repair.md).
/// Chosen by us: a higher value takes more memory, a bit for each number.
pub(in super::super) const WINDOW: u64 = 1 << 14;
/// Size of the window in words of 64 bits.
const WORDS: usize = (WINDOW / 64) as usize;

/// Ring of bits over the newest original sequence numbers: set for delivered data.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRecord {
    newest: Seq,
    bits: Box<[u64; WORDS]>,
}

impl DeliveryRecord {
    /// Creates an empty record; data first sent before `first` are not expected again.
    pub(super) fn new(first: Seq) -> Self {
        Self { newest: first.prev(), bits: Box::new([0; WORDS]) }
    }

    /// Whether these data were delivered, or are too old to know.
    pub(super) fn has(&self, seq: Seq) -> bool {
        if seq.is_after(self.newest) {
            return false;
        }
        let (word, bit) = place(seq);
        self.newest.distance_from(seq) >= WINDOW || self.bits[word] & bit != 0
    }

    /// Marks data as delivered.
    pub(super) fn add(&mut self, seq: Seq) {
        if seq.is_after(self.newest) {
            let steps = seq.distance_from(self.newest);
            if steps >= WINDOW {
                self.bits.fill(0);
            } else {
                let mut step = 1;
                // By words: a peer chooses how far it is.
                while step <= steps {
                    let (word, bit) = place(self.newest + step);
                    let cleared = (64 - u64::from(bit.trailing_zeros())).min(steps + 1 - step);
                    self.bits[word] &= !((u64::MAX >> (64 - cleared)) << bit.trailing_zeros());
                    step += cleared;
                }
            }
            self.newest = seq;
        } else if self.newest.distance_from(seq) >= WINDOW {
            return;
        }
        let (word, bit) = place(seq);
        self.bits[word] |= bit;
    }
}

/// Returns the word and bit of a number; 2^48 is a multiple of the window, so wrapping is harmless.
fn place(seq: Seq) -> (usize, u64) {
    let at = seq.value() % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use timeous_core::Rng;

    use super::*;

    #[test]
    fn what_was_delivered_is_known_and_what_is_forgotten_is_not_delivered_again() {
        for start in [5, (1 << 48) - 100] {
            let start = Seq::new(start);
            let mut delivered = DeliveryRecord::new(start);
            assert!(!delivered.has(start));
            delivered.add(start);
            delivered.add(start + 2);
            assert!(delivered.has(start) && !delivered.has(start + 1) && delivered.has(start + 2));
            delivered.add(start + WINDOW);
            assert!(delivered.has(start), "too old to be known");
            assert!(!delivered.has(start + 1));
            delivered.add(start + 3 * WINDOW);
            assert!(delivered.has(start + WINDOW) && !delivered.has(start + 3 * WINDOW - 1));
        }
    }

    #[test]
    fn it_agrees_with_a_set_within_its_window() {
        let mut rng = Rng::from_seed(3);
        let start = Seq::new((1 << 48) - 20_000);
        let (mut delivered, mut set, mut newest) = (DeliveryRecord::new(start), BTreeSet::new(), 0_u64);
        for _ in 0..50_000 {
            let at = (newest + 50).saturating_sub(rng.below(WINDOW + 40));
            assert_eq!(delivered.has(start + at), set.contains(&at) || newest.saturating_sub(at) >= WINDOW, "{at}");
            if newest.saturating_sub(at) < WINDOW {
                set.insert(at);
            }
            delivered.add(start + at);
            newest = newest.max(at);
        }
    }
}
