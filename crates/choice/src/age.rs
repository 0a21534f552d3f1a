//! Age policy: drops packets that have waited too long (Lai & Kohler §4.2).

use timeous_core::LateChoice;
use timeous_core::{AduMeta, DropReason, Duration, Instant, PathState, Queue};

/// Drops packets that were handed over longer than `limit` ago.
///
/// The paper marks packets older than three send intervals dead, by `user_dead`.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    limit: Duration,
}

impl Age {
    /// Creates the policy with this age limit.
    pub const fn new(limit: Duration) -> Self {
        Self { limit }
    }
}

impl LateChoice for Age {
    fn choose(&mut self, now: Instant, _: &PathState, queue: &mut dyn Queue) {
        for index in 0..queue.len() {
            let Some((meta, _)) = queue.get(index) else { continue };
            if now.saturating_since(meta.enqueued) > self.limit {
                queue.drop_at(index, DropReason::Expired);
            }
        }
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        now.saturating_since(meta.enqueued) <= self.limit && !path.is_too_late(now, meta, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestQueue, at, path};

    #[test]
    fn what_is_older_than_three_intervals_goes() {
        let mut queue = TestQueue::default();
        for sent in [0, 30, 60, 90] {
            queue.push(|meta| meta.enqueued = at(sent));
        }
        Age::new(Duration::from_millis(90)).choose(at(100), &path(), &mut queue);
        assert_eq!(queue.left(), [1, 2, 3]);
        assert_eq!(queue.reason(0), Some(DropReason::Expired));
    }

    #[test]
    fn what_is_older_is_not_sent_again_either() {
        let mut age = Age::new(Duration::from_millis(90));
        let meta = AduMeta { enqueued: at(10), deadline: Some(at(200)), ..AduMeta::default() };
        assert!(age.is_worth_repeating(at(100), &path(), &meta));
        assert!(!age.is_worth_repeating(at(101), &path(), &meta));
        assert!(!age.is_worth_repeating(at(50), &path(), &AduMeta { deadline: Some(at(49)), ..meta }));
    }
}
