//! Duplicate detection by record number, with a sliding window.

/// Window of remembered numbers; older ones count as delivered. Chosen by us: only a window of more than 2^16 datagrams
/// has more in flight; a higher value takes more memory.
const WINDOW: i64 = 1 << 16;
/// Size of the window in words of 64 bits.
const WORDS: usize = WINDOW as usize / 64;

/// Set of delivered numbers.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// One bit per number of the window, by remainder; empty before the first.
    bits: Vec<u64>,
    /// Highest number so far, extended beyond 32 bits.
    highest: i64,
}

impl Seen {
    /// Adds the number; returns whether it is new.
    pub(super) fn insert(&mut self, number: u32) -> bool {
        if self.bits.is_empty() {
            self.bits = vec![0; WORDS];
            self.highest = i64::from(number);
        }
        let number = self.highest + i64::from(number.wrapping_sub(self.highest as u32) as i32);
        if number <= self.highest - WINDOW {
            return false;
        }
        self.slide(number);
        let (word, bit) = place(number);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }

    /// Moves the window up to `number`.
    fn slide(&mut self, number: i64) {
        if number - self.highest >= WINDOW {
            self.bits.fill(0);
        } else {
            let mut passed = self.highest + 1;
            // By words: a peer chooses how far it is.
            while passed <= number {
                let (word, bit) = place(passed);
                let rest = 64 - i64::from(bit.trailing_zeros());
                let cleared = rest.min(number + 1 - passed);
                self.bits[word] &= !((u64::MAX >> (64 - cleared)) << bit.trailing_zeros());
                passed += cleared;
            }
        }
        self.highest = self.highest.max(number);
    }
}

fn place(number: i64) -> (usize, u64) {
    let at = number.rem_euclid(WINDOW) as usize;
    (at / 64, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_new_once_in_any_order_and_around_the_end() {
        let mut seen = Seen::default();
        let numbers = (0..1_000_u32).map(|n| (n ^ 5).wrapping_add(u32::MAX - 300));
        assert!(numbers.clone().all(|number| seen.insert(number)));
        assert!(!numbers.clone().any(|number| seen.insert(number)));
    }

    /// Regression, found by the fuzz target `tcp_record`: they counted as new in any order.
    #[test]
    fn of_numbers_further_apart_than_the_window_the_newer_counts_in_each_order() {
        let [older, newer] = [1_426_380_885, 1_431_635_160];
        let (mut seen, mut turned) = (Seen::default(), Seen::default());
        assert!(seen.insert(older) && seen.insert(newer));
        assert!(turned.insert(newer) && !turned.insert(older));
    }

    #[test]
    fn what_is_older_than_the_window_counts_as_seen() {
        let mut seen = Seen::default();
        assert!(seen.insert(0));
        assert!(seen.insert(WINDOW as u32));
        assert!(!seen.insert(0), "it has left the window");
        assert!(seen.insert(1), "it is the oldest that is told apart");
        assert!(seen.insert(WINDOW as u32 + 40_000));
        assert!(seen.insert(50_000), "its bit was another number's");
        assert!(seen.insert(1 << 30));
        assert!(!seen.insert(30_001));
        assert!(seen.insert((1 << 30) - 5));
    }

    #[test]
    fn a_jump_clears_what_it_passes_and_nothing_else() {
        let mut rng = timeous_core::Rng::from_seed(4);
        let (mut seen, mut model, mut highest) = (Seen::default(), std::collections::BTreeSet::new(), 0_i64);
        seen.insert(0);
        model.insert(0);
        for _ in 0..20_000 {
            let number = (highest + 300 - rng.below(600) as i64).max(0) + rng.chance(0.01) as i64 * 60_000;
            let is_new = number > highest - WINDOW && model.insert(number);
            assert_eq!(seen.insert(number as u32), is_new, "{number} after {highest}");
            highest = highest.max(number);
        }
    }

    #[test]
    #[expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures real time")]
    fn numbers_that_jump_cost_no_time() {
        let (mut seen, begin) = (Seen::default(), std::time::Instant::now());
        assert!((0..100_000_u32).all(|n| seen.insert(n.wrapping_mul(65_535))));
        // Bit by bit it took seven seconds.
        assert!(begin.elapsed().as_secs() < 2, "{:?}", begin.elapsed());
    }
}
