//! Rate limit of the log lines that each user causes.

use std::collections::BTreeMap;

use timeous_core::{Instant, RateLimit};

/// Lines per second and user. Chosen by us: a higher value lets a user fill the log faster.
const LINES_PER_SECOND: u32 = 1;
/// Maximum number of users with a limit of their own; further ones share one. Chosen by us: it bounds memory.
const MAX_USERS: usize = 1_024;
/// Key of the shared limit: no user has this number (POSIX: `(uid_t) -1`).
const OTHERS: u32 = u32::MAX;

/// Limit of the lines of each user.
#[derive(Debug, Default)]
pub(crate) struct LogLimit(BTreeMap<u32, (Option<RateLimit>, u64)>);

impl LogLimit {
    /// Returns whether a line about this user may be logged now: if so, how many were left out since the last one.
    pub(crate) fn take(&mut self, now: Instant, uid: u32) -> Option<u64> {
        let own = self.0.len() < MAX_USERS || self.0.contains_key(&uid);
        let (limit, omitted) = self.0.entry(if own { uid } else { OTHERS }).or_default();
        let limit = limit.get_or_insert_with(|| RateLimit::per_second(LINES_PER_SECOND));
        if !limit.take(now) {
            *omitted += 1;
            return None;
        }
        Some(std::mem::take(omitted))
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::Duration;

    use super::*;

    #[test]
    fn a_user_causes_a_line_a_second_and_another_is_not_silenced() {
        let (mut limit, begin) = (LogLimit::default(), Instant::ZERO + Duration::from_secs(9));
        let lines: Vec<u64> =
            (0..76_000).filter_map(|n| limit.take(begin + Duration::from_micros(n * 100), 1_000)).collect();
        assert_eq!(lines.len(), 8, "in 7.6 seconds");
        assert_eq!(lines[1], 9_999, "those left out are counted");
        let now = begin + Duration::from_secs(8);
        assert_eq!(limit.take(now, 1_001), Some(0));
        for uid in 2_000..9_000 {
            limit.take(now, uid);
        }
        assert!(limit.0.len() <= MAX_USERS + 1);
    }
}
