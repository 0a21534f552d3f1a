//! Packet numbers: reconstruction from their low bits, and the window that tells repetitions from new packets.

/// Number of packets below the highest that may still arrive. Chosen by us (RFC 4303 §3.4.3 asks for at least 32): it covers
/// reordering over some hundred milliseconds at 10 000 packets a second; a higher value takes memory.
const WIDTH: u64 = 1024;
const WORDS: usize = WIDTH as usize / 64;

/// Returns the packet number with these low 32 bits that is closest to `next`, the one expected (RFC 9000 §A.3).
pub(crate) fn expand(low: u32, next: u64) -> u64 {
    const SPAN: u64 = 1 << 32;
    let candidate = (next & !(SPAN - 1)) | u64::from(low);
    if candidate + SPAN / 2 <= next && candidate < u64::MAX - SPAN {
        candidate + SPAN
    } else if candidate > next + SPAN / 2 && candidate >= SPAN {
        candidate - SPAN
    } else {
        candidate
    }
}

/// Packets that have arrived, among the newest [`WIDTH`].
#[derive(Debug, Default)]
pub(crate) struct ReplayWindow {
    /// Number after the highest seen.
    next: u64,
    seen: [u64; WORDS],
}

impl ReplayWindow {
    /// Returns the number after the highest that was seen.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether the packet is neither a repetition nor too old to tell.
    pub(crate) fn may_be_new(&self, number: u64) -> bool {
        if number >= self.next {
            return true;
        }
        self.next - number <= WIDTH && self.seen[word(number)] & bit(number) == 0
    }

    /// Notes an authenticated packet that [`may_be_new`](Self::may_be_new); returns whether it is the highest so far.
    pub(crate) fn insert(&mut self, number: u64) -> bool {
        let is_newest = number >= self.next;
        if is_newest {
            if number - self.next >= WIDTH {
                self.seen = [0; WORDS];
            } else {
                (self.next..number).for_each(|skipped| self.seen[word(skipped)] &= !bit(skipped));
            }
            self.next = number + 1;
        }
        self.seen[word(number)] |= bit(number);
        is_newest
    }
}

fn word(number: u64) -> usize {
    (number % WIDTH) as usize / 64
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_expanded_to_the_nearest() {
        assert_eq!(expand(0, 0), 0);
        assert_eq!(expand(5, 3), 5);
        assert_eq!(expand(u32::MAX, 1 << 32), u64::from(u32::MAX));
        assert_eq!(expand(0, u64::from(u32::MAX)), 1 << 32);
        assert_eq!(expand(7, (5 << 32) + 3), (5 << 32) + 7);
        assert_eq!(expand(u32::MAX, 2), u64::from(u32::MAX), "there is none below zero");
    }

    proptest! {
        #[test]
        fn a_number_near_the_expected_one_is_recovered(next in (1u64 << 33)..1 << 60, off in -(1i64 << 30)..1 << 30) {
            let number = next.wrapping_add_signed(off);
            prop_assert_eq!(expand(number as u32, next), number);
        }

        #[test]
        fn the_window_agrees_with_a_set(steps in prop::collection::vec((0u64..40, 0u64..1200), 1..400)) {
            let (mut window, mut model, mut highest) = (ReplayWindow::default(), BTreeSet::new(), 0u64);
            for (ahead, behind) in steps {
                let number = (highest + ahead * ahead).saturating_sub(behind);
                let expected = !model.contains(&number) && (number > highest || highest + 1 - number <= WIDTH);
                let is_new = window.may_be_new(number);
                prop_assert_eq!(is_new, expected || model.is_empty());
                if is_new {
                    window.insert(number);
                    model.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
