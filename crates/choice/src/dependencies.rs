//! Dependency policy: drops frames whose reference is lost, and the rest of frames that lost a part.

use std::collections::{BTreeSet, VecDeque};

use timeous_core::LateChoice;
use timeous_core::{AduMeta, DropReason, Fate, FrameId, Instant, PathState, Queue, References};

/// Maximum number of frames remembered. Chosen by us: a higher value takes more memory; older frames have no dependents
/// in the queue.
const MAX_FRAMES: usize = 1024;

/// Drops packets that depend, directly or indirectly, on a frame that was not delivered completely and in time.
///
/// It tracks the fates of sent ADUs and the drops of previous policies in a [`Chain`](crate::Chain). A frame's fate is
/// known a round trip later, when frames that refer to it have left the queue and others that refer to those are
/// queued: so it remembers the references of recent frames.
///
/// With cross traffic that fills the path's queue ([`PathState::contended`]), a stream that sends one frame in thirty
/// loses its share, and a window reduced by losses does not grow while the stream is silent. There useless frames may
/// be sent while nothing else waits: they keep the share, and give way to the next useful frame.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// Recent frames in order, and their references, which point backwards.
    seen: VecDeque<(FrameId, References)>,
    known: BTreeSet<FrameId>,
    broken: BTreeSet<FrameId>,
}

impl Dependencies {
    fn note(&mut self, meta: &AduMeta) {
        if meta.frame == FrameId::NONE || !self.known.insert(meta.frame) {
            return;
        }
        self.seen.push_back((meta.frame, meta.references));
        if self.seen.len() > MAX_FRAMES
            && let Some((oldest, _)) = self.seen.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn break_frame(&mut self, frame: FrameId) {
        if frame == FrameId::NONE {
            return;
        }
        self.broken.insert(frame);
        if self.broken.len() > MAX_FRAMES {
            self.broken.pop_first();
        }
    }

    /// Marks a frame as lost for good, and with it the sent frames that depend on it.
    fn break_chain(&mut self, frame: FrameId) {
        self.break_frame(frame);
        // References point backwards: dependents come after it.
        let after = self.seen.iter().rposition(|&(seen, _)| seen == frame).map_or(0, |place| place + 1);
        for at in after..self.seen.len() {
            let (frame, references) = self.seen[at];
            if references.iter().any(|reference| self.broken.contains(&reference)) {
                self.break_frame(frame);
            }
        }
    }

    fn is_useless(&self, meta: &AduMeta) -> bool {
        self.broken.contains(&meta.frame) || meta.references.iter().any(|frame| self.broken.contains(&frame))
    }
}

impl LateChoice for Dependencies {
    fn choose(&mut self, _: Instant, path: &PathState, queue: &mut dyn Queue) {
        let (mut useless, mut is_of_use) = (Vec::new(), false);
        // One pass in order finds whole chains.
        for index in 0..queue.len() {
            let Some((meta, _)) = queue.get(index) else { continue };
            self.note(meta);
            if self.is_useless(meta) {
                self.break_frame(meta.frame);
                useless.push(index);
            } else {
                is_of_use = true;
            }
        }
        if is_of_use || !path.contended {
            useless.into_iter().for_each(|index| queue.drop_at(index, DropReason::ReferenceLost));
        }
    }

    fn is_worth_repeating(&mut self, now: Instant, path: &PathState, meta: &AduMeta) -> bool {
        !path.is_too_late(now, meta, 0) && !self.is_useless(meta)
    }

    fn why_not(&self, meta: &AduMeta) -> DropReason {
        if self.is_useless(meta) { DropReason::ReferenceLost } else { DropReason::TooLate }
    }

    fn on_fate(&mut self, meta: &AduMeta, fate: Fate) {
        self.note(meta);
        match fate {
            Fate::Acked => {}
            // Parity may still recover it.
            Fate::Lost => self.break_frame(meta.frame),
            Fate::Dropped(_) => self.break_chain(meta.frame),
        }
    }

    fn on_missed(&mut self, meta: &AduMeta) {
        self.note(meta);
        self.break_chain(meta.frame);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestQueue, at, path};

    #[test]
    fn a_chain_falls_with_its_head_and_strangers_stay() {
        let mut queue = TestQueue::default();
        queue.push_frame(2, &[1]);
        queue.push_frame(3, &[2]);
        queue.push_frame(4, &[]);
        queue.push_frame(5, &[4, 3]);
        let mut policy = Dependencies::default();
        policy.on_fate(&AduMeta { frame: FrameId(1), ..AduMeta::default() }, Fate::Lost);
        policy.choose(at(0), &path(), &mut queue);
        assert_eq!(queue.left(), [2]);
        assert_eq!(queue.reason(3), Some(DropReason::ReferenceLost));
    }

    /// Found by `timeous-lab short-beside`: beside a CUBIC flow no keyframe ever found a large enough window.
    #[test]
    fn among_others_a_broken_chain_holds_the_place_of_what_comes_after_it() {
        let among = PathState { contended: true, ..path() };
        let mut policy = Dependencies::default();
        policy.on_fate(&AduMeta { frame: FrameId(1), ..AduMeta::default() }, Fate::Lost);
        let mut queue = TestQueue::default();
        queue.push_frame(2, &[1]);
        policy.choose(at(0), &among, &mut queue);
        assert_eq!(queue.left(), [0], "nothing else waits");
        // Meanwhile frame 2 was sent completely.
        let mut queue = TestQueue::default();
        queue.push_frame(3, &[2]);
        queue.push_frame(4, &[]);
        policy.choose(at(1), &among, &mut queue);
        assert_eq!(queue.left(), [1], "frame 3 is no more of use for that");
    }

    #[test]
    fn what_refers_to_a_frame_that_left_before_its_own_reference_was_missed_goes_too() {
        let mut queue = TestQueue::default();
        queue.push_frame(1, &[]);
        queue.push_frame(2, &[1]);
        queue.push_frame(3, &[2]);
        let mut policy = Dependencies::default();
        policy.choose(at(0), &path(), &mut queue);
        let sent = [*queue.meta_mut(0), *queue.meta_mut(1)];
        queue.take(0);
        queue.take(1);
        policy.on_fate(&sent[1], Fate::Acked);
        policy.on_fate(&sent[0], Fate::Lost);
        policy.choose(at(100), &path(), &mut queue);
        assert_eq!(queue.left(), [2], "parity may bring frame 1 in time");
        policy.on_missed(&sent[0]);
        policy.choose(at(100), &path(), &mut queue);
        assert_eq!(queue.reason(2), Some(DropReason::ReferenceLost), "frame 2 is there, and cannot be shown");
        queue.push_frame(4, &[3]);
        queue.push_frame(5, &[]);
        policy.choose(at(140), &path(), &mut queue);
        assert_eq!(queue.left(), [4]);
    }

    #[test]
    fn a_frame_that_came_late_is_no_reference() {
        let mut queue = TestQueue::default();
        queue.push_frame(2, &[1]);
        let mut policy = Dependencies::default();
        let first = AduMeta { frame: FrameId(1), ..AduMeta::default() };
        policy.on_fate(&first, Fate::Acked);
        policy.choose(at(0), &path(), &mut queue);
        assert_eq!(queue.left(), [0]);
        policy.on_missed(&first);
        policy.choose(at(0), &path(), &mut queue);
        assert!(queue.left().is_empty());
    }

    #[test]
    fn the_rest_of_a_torn_frame_goes_too() {
        let mut queue = TestQueue::default();
        queue.push_frame(7, &[]);
        queue.push_frame(7, &[]);
        let mut policy = Dependencies::default();
        policy.on_fate(&AduMeta { frame: FrameId(7), ..AduMeta::default() }, Fate::Dropped(DropReason::TooLarge));
        policy.choose(at(0), &path(), &mut queue);
        assert!(queue.left().is_empty());
    }

    #[test]
    fn what_has_left_is_not_repeated_for_a_reference_that_is_gone_nor_for_a_deadline_that_passed() {
        let mut policy = Dependencies::default();
        let of = |frame, references: &[u32]| {
            let mut meta = AduMeta { frame: FrameId(frame), deadline: Some(at(100)), ..AduMeta::default() };
            assert!(references.iter().all(|&reference| meta.references.push(FrameId(reference))));
            meta
        };
        policy.on_fate(&of(1, &[]), Fate::Lost);
        assert!(!policy.is_worth_repeating(at(0), &path(), &of(2, &[1])));
        assert!(!policy.is_worth_repeating(at(0), &path(), &of(1, &[])), "the rest of the frame itself");
        assert!(policy.is_worth_repeating(at(0), &path(), &of(3, &[2])), "frame 2 may be there all the same");
        assert!(!policy.is_worth_repeating(at(101), &path(), &of(4, &[])));
    }

    #[test]
    fn adus_without_a_frame_depend_on_nothing_and_memory_is_bounded() {
        let mut policy = Dependencies::default();
        policy.on_fate(&AduMeta::default(), Fate::Lost);
        let mut queue = TestQueue::default();
        queue.push(|_| {});
        policy.choose(at(0), &path(), &mut queue);
        assert_eq!(queue.left(), [0]);
        for n in 1..3_000 {
            policy.break_frame(FrameId(n));
        }
        assert_eq!(policy.broken.len(), MAX_FRAMES);
    }
}
