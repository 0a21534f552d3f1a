//! Chains of late-choice policies: each policy sees the queue that the previous ones left, and learns what they dropped.

use timeous_core::LateChoice;
use timeous_core::{AduMeta, Adviser, DropReason, Fate, Instant, PathState, Queue};

/// Policy composed of several others.
///
/// ```
/// use timeous_choice::{Age, Chain, Deadlines, Dependencies};
/// use timeous_core::Duration;
/// let chain = Chain::default().then(Deadlines).then(Age::new(Duration::from_millis(500))).then(Dependencies::default());
/// ```
#[derive(Default)]
pub struct Chain {
    policies: Vec<Box<dyn LateChoice>>,
}

impl Chain {
    /// Appends a policy.
    #[must_use]
    pub fn then(mut self, policy: impl LateChoice + 'static) -> Self {
        self.policies.push(Box::new(policy));
        self
    }

    fn tell(&mut self, dropped: &[(AduMeta, DropReason)]) {
        for (meta, reason) in dropped {
            self.on_fate(meta, Fate::Dropped(*reason));
        }
    }
}

impl LateChoice for Chain {
    fn choose(&mut self, now: Instant, path: &PathState, queue: &mut dyn Queue) {
        for at in 0..self.policies.len() {
            let mut recording = Recording { queue, dropped: Vec::new() };
            self.policies[at].choose(now, path, &mut recording);
            let dropped = recording.dropped;
            self.tell(&dropped);
        }
    }

    fn holds(&self) -> bool {
        self.policies.iter().any(|policy| policy.holds())
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        self.policies.iter_mut().all(|policy| policy.is_worth_repeating(now, path, meta))
    }

    fn is_punctual(&self) -> bool {
        self.policies.iter().any(|policy| policy.is_punctual())
    }

    /// Reports reasons other than time first: another policy may have refused the packet for those.
    fn why_not(&self, meta: &AduMeta) -> DropReason {
        let mut reasons = self.policies.iter().map(|policy| policy.why_not(meta));
        reasons.find(|&reason| reason != DropReason::TooLate).unwrap_or(DropReason::TooLate)
    }

    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        for policy in &mut self.policies {
            policy.on_fate(meta, fate);
        }
    }

    fn on_missed(&mut self, meta: &AduMeta) {
        for policy in &mut self.policies {
            policy.on_missed(meta);
        }
    }

    /// The first adviser among the policies.
    fn adviser(&mut self) -> Option<&mut dyn Adviser> {
        self.policies.iter_mut().find_map(|policy| policy.adviser())
    }
}

/// Queue wrapper that records drops. Allocates memory only for drops.
struct Recording<'a> {
    queue: &'a mut dyn Queue,
    dropped: Vec<(AduMeta, DropReason)>,
}

impl Queue for Recording<'_> {
    fn len(&self) -> usize {
        self.queue.len()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        self.queue.get(index)
    }

    fn was_sent(&self, index: usize) -> bool {
        self.queue.was_sent(index)
    }

    fn drop_at(&mut self, index: usize, reason: DropReason) {
        if let Some((meta, _)) = self.queue.get(index) {
            self.dropped.push((*meta, reason));
            self.queue.drop_at(index, reason);
        }
    }
}

#[cfg(test)]
mod tests {
    use timeous_core::FrameId;

    use super::*;
    use crate::testing::{TestQueue, at, path};
    use crate::{Deadlines, Dependencies, Punctual};

    #[test]
    fn one_policy_that_wants_nothing_late_is_enough() {
        let chain = Chain::default().then(Deadlines);
        assert!(!chain.is_punctual() && chain.then(Punctual).is_punctual());
    }

    #[test]
    fn a_later_policy_hears_what_an_earlier_one_gave_up() {
        let mut queue = TestQueue::default();
        queue.push_frame(1, &[]);
        queue.meta_mut(0).deadline = Some(at(10));
        queue.push_frame(2, &[1]);
        let mut chain = Chain::default().then(Deadlines).then(Dependencies::default());
        chain.choose(at(20), &path(), &mut queue);
        assert_eq!(queue.reason(0), Some(DropReason::Expired));
        assert_eq!(queue.reason(1), Some(DropReason::ReferenceLost));
        // A frame queued later that refers to it is dropped, too.
        let mut later = TestQueue::default();
        later.push_frame(3, &[2]);
        chain.choose(at(21), &path(), &mut later);
        assert!(later.left().is_empty());
    }

    /// Reason of a packet that was pulled and then refused because its reference is lost, which used to be reported as too late.
    #[test]
    fn what_was_pulled_and_refers_to_what_is_gone_is_not_given_up_for_the_time() {
        let mut chain = Chain::default().then(Deadlines).then(Dependencies::default());
        chain.on_fate(&AduMeta { frame: FrameId(1), ..AduMeta::default() }, Fate::Lost);
        let mut refers = AduMeta { frame: FrameId(2), deadline: Some(at(10)), ..AduMeta::default() };
        assert!(refers.references.push(FrameId(1)));
        assert!(!chain.is_worth_repeating(at(0), &path(), &refers));
        assert_eq!(chain.why_not(&refers), DropReason::ReferenceLost);
        assert_eq!(chain.why_not(&AduMeta { frame: FrameId(3), ..refers }), DropReason::ReferenceLost);
        assert_eq!(chain.why_not(&AduMeta { frame: FrameId(3), ..AduMeta::default() }), DropReason::TooLate);
    }
}
