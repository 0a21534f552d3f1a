//! Windowed minimum and maximum filter with three samples (Nichols' filter, as in Linux's `win_minmax`).

use timeous_core::{Duration, Instant};

/// Windowed minimum.
pub(super) type Least<T> = Extreme<T, true>;
/// Windowed maximum.
pub(super) type Greatest<T> = Extreme<T, false>;

/// The best sample of a window, and the samples that will replace it when it expires, in order of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extreme<T, const LEAST: bool>(Option<[(Instant, T); 3]>);

impl<T, const LEAST: bool> Default for Extreme<T, LEAST> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Copy + PartialOrd, const LEAST: bool> Extreme<T, LEAST> {
    /// The current minimum or maximum.
    pub(super) fn get(&self) -> Option<T> {
        self.0.map(|best| best[0].1)
    }

    /// Adds a sample and drops those older than `window`. Returns the current minimum or maximum.
    pub(super) fn measured(&mut self, now: Instant, window: Duration, value: T) -> T {
        let new = (now, value);
        let beats = |old: T| if LEAST { value <= old } else { value >= old };
        let is_old = |(at, _): (Instant, T)| now.saturating_since(at) > window;
        let best = match self.0 {
            Some(mut best) if !beats(best[0].1) && !is_old(best[2]) => {
                if beats(best[1].1) {
                    (best[1], best[2]) = (new, new);
                } else if beats(best[2].1) {
                    best[2] = new;
                }
                let age = now.saturating_since(best[0].0);
                if is_old(best[0]) {
                    best = [best[1], best[2], new];
                    if is_old(best[0]) {
                        best = [best[1], best[2], new];
                    }
                } else if best[1].0 == best[0].0 && age > window / 4 {
                    // No second best within a quarter of the window: take one from the second quarter.
                    (best[1], best[2]) = (new, new);
                } else if best[2].0 == best[1].0 && age > window / 2 {
                    best[2] = new;
                }
                best
            }
            _ => [new; 3],
        };
        self.0 = Some(best);
        best[0].1
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WINDOW: Duration = Duration::from_millis(1_000);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn the_best_counts_until_it_is_too_old() {
        let (mut least, mut greatest) = (Least::default(), Greatest::default());
        assert_eq!((least.get(), greatest.get()), (None::<u64>, None::<u64>));
        for (millis, value) in [(0, 5), (300, 7), (600, 6), (900, 9)] {
            least.measured(at(millis), WINDOW, value);
            greatest.measured(at(millis), WINDOW, value);
        }
        assert_eq!((least.get(), greatest.get()), (Some(5), Some(9)));
        assert_eq!(least.measured(at(1_001), WINDOW, 8), 6);
        assert_eq!(least.measured(at(1_700), WINDOW, 8), 8);
        assert_eq!(greatest.measured(at(1_901), WINDOW, 1), 1);
    }

    proptest! {
        #[test]
        fn it_is_of_the_window_and_never_better_than_its_best(
            values in prop::collection::vec((0_u64..400, 0_u64..100), 1..200),
        ) {
            let (mut least, mut all, mut now) = (Least::default(), Vec::new(), 0);
            for (gap, value) in values {
                now += gap;
                all.push((now, value));
                let got = least.measured(at(now), WINDOW, value);
                let within: Vec<u64> =
                    all.iter().filter(|(then, _)| now - then <= 1_000).map(|&(_, value)| value).collect();
                prop_assert!(within.contains(&got), "{got} was not measured within the window");
                // The filter misses the best only if a better one came before it and has expired.
                prop_assert!(got <= value);
            }
        }
    }
}
