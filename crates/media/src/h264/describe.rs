//! Frame metadata for a sender, from slice headers: type, references, priority, and times.

use timeous_core::{FrameId, Priority, References};

use super::entry::EntryPoints;
use super::poc::PocState;
use super::references::ReferenceBuffer;
use super::sei::RecoveryPoint;
use super::slice::{SliceHeader, SliceKind};
use super::timeline::{Timeline, Times};
use crate::frame::{EntryPoint, Frame, FrameKind, FrameRate, name};

/// Frame type, by the type of its slices.
pub(crate) fn kind_of(idr: bool, slices: SliceKind) -> FrameKind {
    match slices {
        _ if idr => FrameKind::Idr,
        SliceKind::I => FrameKind::I,
        SliceKind::P => FrameKind::P,
        SliceKind::B => FrameKind::B,
    }
}

/// Reference frame, as recorded for the frames that refer to it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RecordedReference {
    index: u32,
    /// Frames in the reference buffer that it depends on, directly or indirectly.
    ancestors: Vec<u32>,
}

/// Frame being described.
#[derive(Debug)]
struct FrameInProgress {
    index: u32,
    /// First slice of the frame.
    first: SliceHeader,
    /// First slice of the current field, or of the picture.
    field: SliceHeader,
    count: i64,
    recovery: Option<RecoveryPoint>,
    kind: SliceKind,
    reference: bool,
    times: Times,
    reorder: u32,
    /// Possible references of its slices so far.
    known: Vec<RecordedReference>,
}

/// Describes the frames of a stream, slice by slice.
#[derive(Debug, Default)]
pub(crate) struct Describer {
    entries: EntryPoints,
    poc: PocState,
    buffer: ReferenceBuffer<RecordedReference>,
    timeline: Timeline,
    index: u32,
    gop_position: u32,
    current: Option<FrameInProgress>,
}

impl Describer {
    /// Begins a frame with this slice.
    pub(crate) fn begin(
        &mut self,
        header: SliceHeader,
        recovery: Option<RecoveryPoint>,
        (rate, reorder): (FrameRate, u32),
    ) {
        let count = self.poc.count(&header);
        let times = self.timeline.place(&header, count, rate);
        self.buffer.begin(&header, false);
        self.current = Some(FrameInProgress {
            index: self.index,
            first: header.clone(),
            field: header.clone(),
            count,
            recovery,
            kind: header.kind,
            reference: false,
            times,
            reorder,
            known: Vec::new(),
        });
        self.index = self.index.wrapping_add(1);
        self.slice(&header);
    }

    /// Begins the frame's second field with this slice.
    pub(crate) fn field(&mut self, header: &SliceHeader) {
        self.end_field(true);
        if let Some(current) = &mut self.current {
            current.count = self.poc.count(header);
            current.field = header.clone();
        }
        self.slice(header);
    }

    /// Adds a slice to the frame.
    pub(crate) fn slice(&mut self, header: &SliceHeader) {
        let Some(current) = &mut self.current else { return };
        current.kind = current.kind.max(header.kind);
        current.reference |= header.is_reference();
        for known in self.buffer.referred(header, current.count).known {
            if !current.known.contains(&known) {
                current.known.push(known);
            }
        }
    }

    /// Ends the frame. If it is not `complete`, it is missing as a reference.
    pub(crate) fn end(&mut self, complete: bool) {
        self.end_field(complete);
        let Some(current) = self.current.take() else { return };
        if !complete {
            self.buffer.lose_current();
        }
        let entry = self.entries.judge(&current.first, current.recovery, current.kind);
        self.entries.take(&current.first, current.recovery, current.kind);
        if entry.is_some() {
            self.gop_position = 0;
            if !current.first.is_idr() {
                self.buffer.enter(current.count);
            }
        }
        self.gop_position = self.gop_position.saturating_add(current.reference.into());
    }

    /// Current frame as known so far, with these NAL units.
    pub(crate) fn frame(&self, nals: Vec<Vec<u8>>) -> Option<Frame> {
        let current = self.current.as_ref()?;
        let entry = self.entries.judge(&current.first, current.recovery, current.kind);
        let kind = kind_of(current.first.is_idr(), current.kind);
        let gop_position = if entry.is_some() { 0 } else { self.gop_position };
        let Times { display_index, capture, handover, duration, rtp_ticks } = current.times;
        Some(Frame {
            index: current.index,
            kind,
            reference: current.reference,
            frame_num: current.first.frame_num,
            entry,
            gop_position,
            display_index,
            reorder: current.reorder,
            capture,
            handover,
            duration,
            rtp_ticks,
            references: if entry.is_some() { References::NONE } else { nearest(&current.known) },
            priority: worth(entry, current.reference, gop_position),
            nals,
        })
    }

    fn end_field(&mut self, complete: bool) {
        let Some(current) = &self.current else { return };
        let entry = self.entries.judge(&current.first, current.recovery, current.kind);
        let mut ancestors = Vec::new();
        if entry.is_none() {
            let all = current.known.iter().flat_map(|known| known.ancestors.iter().chain([&known.index]));
            ancestors.extend(all.filter(|&&index| self.buffer.values().any(|known| known.index == index)));
            ancestors.sort_unstable();
            ancestors.dedup();
        }
        let known = RecordedReference { index: current.index, ancestors };
        self.buffer.end(&current.field, current.count, complete.then_some(known));
    }
}

/// Direct references, without those implied by others; the latest first, as many as fit.
fn nearest(known: &[RecordedReference]) -> References {
    let implied = |index: u32| known.iter().any(|other| other.ancestors.contains(&index));
    let mut direct: Vec<u32> = known.iter().map(|known| known.index).filter(|&index| !implied(index)).collect();
    direct.sort_unstable_by(|a, b| b.cmp(a));
    let mut references = References::NONE;
    for index in direct {
        if !references.push(FrameId(name(index).0)) {
            break;
        }
    }
    references
}

/// Priority of a frame: highest for an entry point with immediate recovery, lowest for a non-reference frame. In
/// between, it falls with the distance from the entry point, since fewer frames depend on later ones.
fn worth(entry: Option<EntryPoint>, reference: bool, gop_position: u32) -> Priority {
    match entry {
        Some(EntryPoint { recovery: 0 }) => Priority::HIGHEST,
        None if !reference => Priority(16),
        _ => Priority(240 - gop_position.min(176) as u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_group_is_worth_less_than_its_head_and_more_than_a_b_frame() {
        let idr = worth(Some(EntryPoint { recovery: 0 }), true, 0);
        let wave = worth(Some(EntryPoint { recovery: 24 }), true, 0);
        let head = worth(None, true, 1);
        let tail = worth(None, true, 100_000);
        let b = worth(None, false, 3);
        assert!(idr > wave && wave > head && head > tail && tail > b);
    }

    #[test]
    fn what_a_reference_refers_to_is_not_named_beside_it() {
        let known = |index: u32, ancestors: &[u32]| RecordedReference { index, ancestors: ancestors.to_vec() };
        let chain = [known(0, &[]), known(3, &[0]), known(5, &[0, 3])];
        assert!(nearest(&chain).iter().eq([name(5)]));
        let apart: Vec<RecordedReference> = (0..7).map(|index| known(index, &[])).collect();
        assert!(nearest(&apart).iter().eq([6, 5, 4, 3].map(name)), "the latest, as many as fit");
    }
}
