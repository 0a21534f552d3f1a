//! Assembly of a queue's packets into frames.

use timeous_core::{AduMeta, AduSeq, FrameId, Instant, Queue, References, SubStream};

use super::schedule::MAX_JOBS;

/// Key of a frame; an ADU without a frame is identified by its sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name(FrameId, AduSeq);

impl Name {
    pub(super) fn of(meta: &AduMeta) -> Self {
        match meta.frame {
            FrameId::NONE => Self(FrameId::NONE, meta.seq),
            frame => Self(frame, AduSeq(0)),
        }
    }

    pub(super) fn frame(self) -> FrameId {
        self.0
    }
}

/// Queued frame, or the rest of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) name: Name,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Latest deadline of its packets: a frame is played out one latency after the capture of its last part.
    pub(super) deadline: Instant,
    pub(super) references: References,
    pub(super) worth: u64,
    /// Whether a part of it was sent and must be retransmitted.
    pub(super) begun: bool,
    /// Whether it belongs to tables and data.
    pub(super) is_table: bool,
}

/// Collects the first [`MAX_JOBS`] frames of a queue, in the order of their first packets.
pub(super) fn gather(queue: &dyn Queue, worth: impl Fn(&AduMeta) -> u64, frames: &mut Vec<Waiting>) {
    frames.clear();
    // Highest identifier of them: most packets of a long queue belong to newer frames, for which no search is needed.
    let mut highest = FrameId::NONE;
    for at in 0..queue.len() {
        let Some((meta, len)) = queue.get(at) else { continue };
        let name = Name::of(meta);
        let deadline = meta.deadline.unwrap_or(Instant::FAR_FUTURE);
        let may_be_known = name.frame() != FrameId::NONE && name.frame() <= highest;
        let known = if may_be_known { frames.iter().rposition(|frame| frame.name == name) } else { None };
        match known {
            Some(known) => {
                let frame = &mut frames[known];
                frame.packets += 1;
                frame.begun |= queue.was_sent(at);
                frame.bytes += len as u64;
                frame.deadline = frame.deadline.max(deadline);
            }
            None if frames.len() < MAX_JOBS => {
                highest = highest.max(name.frame());
                let (bytes, references, begun) = (len as u64, meta.references, queue.was_sent(at));
                let (worth, is_table) = (worth(meta), meta.substream == SubStream::TABLES);
                frames.push(Waiting { name, packets: 1, bytes, deadline, references, worth, begun, is_table });
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestQueue;

    #[test]
    fn what_comes_of_an_early_frame_behind_many_others_counts() {
        let mut queue = TestQueue::default();
        (0..=MAX_JOBS as u32).for_each(|frame| queue.push_frame(frame + 1, &[]));
        [1, 0, MAX_JOBS as u32, MAX_JOBS as u32 + 1].iter().for_each(|frame| queue.push_frame(*frame, &[]));
        let mut frames = Vec::new();
        gather(&queue, |_| 1, &mut frames);
        let of_two = frames.iter().filter(|frame| frame.packets == 2).map(|frame| frame.name.frame().0);
        assert_eq!((frames.len(), of_two.collect::<Vec<_>>()), (MAX_JOBS, vec![1, MAX_JOBS as u32]));
    }
}
