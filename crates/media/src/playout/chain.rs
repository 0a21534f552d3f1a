//! Decodability of frames by their slice headers: simulates the decoder's reference buffer.

#[cfg(test)]
mod tests;

use crate::frame::EntryPoint;
use crate::h264::entry::{EntryPoints, is_plain};
use crate::h264::picture::Picture;
use crate::h264::poc::PocState;
use crate::h264::references::ReferenceBuffer;
use crate::h264::slice::SliceHeader;

/// Distance between two frames, in RTP ticks and in picture order counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) ticks: i64,
    pub(super) counts: i64,
}

/// Simulates the decoder's reference buffer: a frame can be decoded if it is an entry point, or if all its possible
/// references were decoded. A gap in `frame_num` (H.264 §7.4.3) tells of missing references.
///
/// Numbering restarts at IDR pictures, so that after a loss the numbers may belong to another group of pictures. They
/// are trusted only if RTP time has advanced in step with the picture order count, which restarts with them; otherwise
/// nothing can be decoded before the next entry point.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    /// Reference frames and whether they were decoded; `None` while nothing is known of them.
    buffer: Option<ReferenceBuffer<()>>,
    entries: EntryPoints,
    /// The last picture as an entry point, if it is one.
    entry: Option<EntryPoint>,
    /// Count below which pictures refer to frames that an editor of the stream cut off (`broken_link_flag`).
    broken_before: Option<i64>,
    /// The last picture, if it was a single field that its second field may follow.
    field: Option<Field>,
    last: Option<Reference>,
    poc: PocState,
    /// Whether the picture order count advances by one per frame (odd counts) instead of one per field.
    counts_frames: bool,
    pace: Option<Pace>,
    hole: bool,
}

/// Single field in its own access unit, as from RTP senders that give each field a timestamp.
#[derive(Clone, Debug)]
struct Field {
    header: SliceHeader,
    decodable: bool,
    is_entry: bool,
}

/// The last reference frame.
#[derive(Clone, Copy, Debug)]
struct Reference {
    count: i64,
    ticks: i64,
}

impl Chain {
    /// Notes a loss between the last frame and the next.
    pub(super) fn hole(&mut self) {
        self.hole = true;
    }

    /// The last picture passed to `decode`, as an entry point.
    pub(super) fn entry(&self) -> Option<EntryPoint> {
        self.entry
    }

    /// Returns whether the frame, next in decoding order, can be decoded; if so, records it as decoded. `declared` is
    /// the pace by the VUI.
    pub(super) fn decode(&mut self, picture: &Picture, ticks: i64, declared: Option<Pace>) -> bool {
        let header = picture.first();
        self.entry = self.entries.judge(header, picture.recovery, picture.kind);
        self.entries.take(header, picture.recovery, picture.kind);
        let first = self.field.take().filter(|first| !self.hole && first.header.pairs_with(header));
        let mut poc = self.poc;
        let mut count = poc.count(header);
        self.counts_frames |= header.bottom_field.is_none() && count % 2 != 0;
        if first.is_none() && !header.is_idr() && !self.follows(header, count, ticks, declared) {
            self.buffer = None;
        }
        let stands_alone = self.entry.is_some() || is_plain(header, picture.kind);
        let mut buffer = match self.buffer.take() {
            Some(buffer) => buffer,
            None if header.is_idr() => ReferenceBuffer::default(),
            None if stands_alone => {
                // Decoding starts here; the decoder's buffer may hold frames unknown to us.
                self.last = None;
                poc = PocState::starting_at(header);
                count = poc.count(header);
                ReferenceBuffer::blind_before(count)
            }
            None => return false,
        };
        if first.is_none() {
            buffer.begin(header, self.hole);
        }
        let is_entry = stands_alone || first.as_ref().is_some_and(|first| first.is_entry);
        let mut decodable = first.is_none_or(|first| first.decodable);
        let mut field_count = count;
        for (place, slices) in picture.fields.iter().enumerate() {
            if place > 0 {
                field_count = poc.count(&slices[0]);
            }
            decodable &= is_entry || !self.misses(&buffer, slices, field_count);
            buffer.end(&slices[0], field_count, decodable.then_some(()));
        }
        if !decodable {
            buffer.lose_current();
        }
        if header.is_idr() {
            self.broken_before = None;
        } else if self.entry.is_some() {
            buffer.enter(count);
            self.broken_before = picture.recovery.filter(|point| point.broken_link).map(|_| count);
        }
        self.buffer = Some(buffer);
        if picture.fields.iter().any(|slices| slices[0].is_reference()) {
            self.learn_pace(header, count, ticks);
            self.last = Some(Reference { count: if header.resets() { 0 } else { count }, ticks });
            self.hole = false;
            self.poc = poc;
        }
        let single = picture.fields.len() == 1 && header.bottom_field.is_some();
        self.field = single.then(|| Field { header: header.clone(), decodable, is_entry });
        decodable
    }

    /// Whether slices of a picture may refer to frames that were not decoded.
    fn misses(&self, buffer: &ReferenceBuffer<()>, slices: &[SliceHeader], count: i64) -> bool {
        let broken = self.broken_before.is_some_and(|before| count < before);
        broken || slices.iter().any(|slice| buffer.referred(slice, count).missing)
    }

    /// Whether the picture belongs to the current group of pictures, by its numbers.
    fn follows(&self, header: &SliceHeader, count: i64, ticks: i64, declared: Option<Pace>) -> bool {
        let Some(previous) = self.buffer.as_ref().and_then(ReferenceBuffer::previous) else { return false };
        if header.frame_num == previous {
            // `frame_num` rises with each reference frame.
            return false;
        }
        if !self.hole {
            return true;
        }
        let (Some(pace), Some(last)) = (self.pace.or(declared), self.last) else { return false };
        // Beyond this distance `frame_num` may have wrapped around.
        let counts_per_frame = if self.counts_frames { 1 } else { 2 };
        if count - last.count >= counts_per_frame * i64::from(header.max_frame_num) {
            return false;
        }
        let (pace_ticks, pace_counts) = (i128::from(pace.ticks), i128::from(pace.counts));
        let expected = i128::from(count - last.count) * pace_ticks;
        let found = i128::from(ticks - last.ticks) * pace_counts;
        // Tolerance: one count, half of a frame.
        expected.abs_diff(found) <= pace_ticks.unsigned_abs()
    }

    fn learn_pace(&mut self, header: &SliceHeader, count: i64, ticks: i64) {
        let Some(last) = self.last.filter(|_| !header.is_idr() && !header.resets() && !self.hole) else { return };
        let pace = Pace { ticks: ticks - last.ticks, counts: count - last.count };
        if pace.ticks > 0 && pace.counts > 0 {
            self.pace = Some(pace);
        }
    }
}
