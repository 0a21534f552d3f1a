//! A reading of two clocks at the same time.

use crate::{Duration, Instant};

/// Time within which both clocks should be read, and number of attempts. Chosen by us: an error of some milliseconds shows in the round
/// trips of a path; a busy machine may hold up any reading, but hardly all of them.
const MAX_GAP: Duration = Duration::from_micros(20);
const MAX_READINGS: usize = 4;

/// Reads a clock and another one at the same time, as far as a process can: it may be held up between the readings, so that the best of a
/// few is taken. What is left makes a time that is converted from the `other` clock to `now`'s late, never early.
pub fn read_both<T>(now: impl Fn() -> Instant, other: impl Fn() -> T) -> (Instant, T) {
    let read = || {
        let (before, other, after) = (now(), other(), now());
        (after.saturating_since(before), (after, other))
    };
    let mut best = read();
    for _ in 1..MAX_READINGS {
        if best.0 <= MAX_GAP {
            break;
        }
        let next = read();
        if next.0 < best.0 {
            best = next;
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// Reads two clocks of the same time, with these pauses in microseconds before each reading; returns both, and the pauses left.
    fn read(pauses: &[u64]) -> (u64, u64, usize) {
        let (time, left) = (Cell::new(0), RefCell::new(pauses.iter()));
        let clock = || {
            time.set(time.get() + left.borrow_mut().next().copied().unwrap_or_default());
            time.get()
        };
        let (now, other) = read_both(|| Instant::ZERO + Duration::from_micros(clock()), clock);
        (now.saturating_since(Instant::ZERO).as_micros(), other, left.into_inner().len())
    }

    #[test]
    fn a_reading_that_was_not_held_up_is_taken_at_once() {
        assert_eq!(read(&[100, 10, 10, 7]), (120, 110, 1));
    }

    #[test]
    fn of_readings_that_were_held_up_the_shortest_counts() {
        assert_eq!(read(&[0, 500, 500, 0, 10, 11, 0, 900, 0, 0, 30, 0]), (1_021, 1_010, 0));
        assert_eq!(read(&[0, 0, 90, 0, 0, 80, 0, 0, 70, 0, 0, 60, 5]), (300, 240, 1), "four at most");
    }
}
