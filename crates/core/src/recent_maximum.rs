//! Maximum of recent durations, in constant memory.

use crate::time::{Duration, Instant};

/// Maximum of the durations of this period and of the one before: each counts for one to two periods.
///
/// ```
/// use timeous_core::{Duration, Instant, RecentMaximum};
/// let (at, ms) = (|secs| Instant::ZERO + Duration::from_secs(secs), Duration::from_millis);
/// let mut maximum = RecentMaximum::default();
/// for (secs, millis, most) in [(0, 60, 60), (1, 20, 60), (10, 20, 60), (20, 20, 20)] {
///     maximum.note(at(secs), ms(millis), Duration::from_secs(10));
///     assert_eq!(maximum.get(), ms(most));
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RecentMaximum {
    /// Longest duration of the current period, and of the one before it.
    longest: [Duration; 2],
    began: Instant,
}

impl RecentMaximum {
    /// Takes a duration; a period is over after `period`.
    pub fn note(&mut self, now: Instant, duration: Duration, period: Duration) {
        if now.saturating_since(self.began) >= period {
            (self.longest, self.began) = ([Duration::ZERO, self.longest[0]], now);
        }
        self.longest[0] = self.longest[0].max(duration);
    }

    /// The maximum.
    pub fn get(&self) -> Duration {
        self.longest[0].max(self.longest[1])
    }
}
