//! Assembly of a queue's packets into frames.

use timeous_core::{AduMeta, AduSeq, FrameId, Instant, Queue, References, SubStream};

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

/// Collects the frames of a queue, in the order of their first packets.
pub(super) fn gather(queue: &dyn Queue, worth: impl Fn(&AduMeta) -> u64, frames: &mut Vec<Waiting>) {
    frames.clear();
    for at in 0..queue.len() {
        let Some((meta, len)) = queue.get(at) else { continue };
        let name = Name::of(meta);
        let deadline = meta.deadline.unwrap_or(Instant::FAR_FUTURE);
        let same = |frame: &&mut Waiting| frame.name == name && name.frame() != FrameId::NONE;
        match frames.iter_mut().rev().find(same) {
            Some(frame) => {
                frame.packets += 1;
                frame.begun |= queue.was_sent(at);
                frame.bytes += len as u64;
                frame.deadline = frame.deadline.max(deadline);
            }
            None => {
                let (bytes, references, begun) = (len as u64, meta.references, queue.was_sent(at));
                let (worth, is_table) = (worth(meta), meta.substream == SubStream::TABLES);
                frames.push(Waiting { name, packets: 1, bytes, deadline, references, worth, begun, is_table });
            }
        }
    }
}
