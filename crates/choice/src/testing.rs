//! Test queue in plain memory, and values that all policies' tests need.

use timeous_core::{AduMeta, AduSeq, DropReason, Duration, FrameId, Instant, PathState, Queue, References};

/// Length of every ADU in it, in bytes.
const LEN: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct TestQueue {
    places: Vec<(AduMeta, Option<DropReason>)>,
    /// Number of places at the beginning that were sent, and are lost.
    pub(crate) lost: usize,
}

impl TestQueue {
    pub(crate) fn push(&mut self, with: impl FnOnce(&mut AduMeta)) {
        let mut meta = AduMeta { seq: AduSeq(self.places.len() as u64), ..AduMeta::default() };
        with(&mut meta);
        self.places.push((meta, None));
    }

    pub(crate) fn push_frame(&mut self, frame: u32, references: &[u32]) {
        self.push(|meta| {
            meta.frame = FrameId(frame);
            let mut refs = References::NONE;
            for &reference in references {
                assert!(refs.push(FrameId(reference)));
            }
            meta.references = refs;
        });
    }

    pub(crate) fn meta_mut(&mut self, index: usize) -> &mut AduMeta {
        &mut self.places[index].0
    }

    /// Indices of packets that were not dropped.
    pub(crate) fn left(&self) -> Vec<usize> {
        (0..self.places.len()).filter(|&at| self.places[at].1.is_none()).collect()
    }

    /// Takes the packet at an index.
    pub(crate) fn take(&mut self, index: usize) {
        self.places[index].1 = Some(DropReason::Withdrawn);
    }

    pub(crate) fn reason(&self, index: usize) -> Option<DropReason> {
        self.places[index].1
    }
}

impl Queue for TestQueue {
    fn len(&self) -> usize {
        self.places.len()
    }

    fn get(&self, index: usize) -> Option<(&AduMeta, usize)> {
        self.places.get(index).filter(|(_, dropped)| dropped.is_none()).map(|(meta, _)| (meta, LEN))
    }

    fn was_sent(&self, index: usize) -> bool {
        index < self.lost
    }

    fn drop_at(&mut self, index: usize, reason: DropReason) {
        if let Some((_, dropped @ None)) = self.places.get_mut(index) {
            *dropped = Some(reason);
        }
    }
}

pub(crate) fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

pub(crate) fn path() -> PathState {
    PathState::default()
}
