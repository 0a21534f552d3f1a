//! The chain of references: whether a whole frame can be decoded after what was decoded before it.

use crate::h264::poc::PocState;
use crate::h264::slice::SliceHeader;

/// A distance in RTP ticks and in picture order counts, of the same two frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    pub(super) ticks: i64,
    pub(super) counts: i64,
}

/// Follows `frame_num` (H.264 §7.4.3): a frame can be decoded if it is an IDR picture, or if its number is the one
/// after that of the last decoded reference frame. Any other number tells of a reference that is missing, and nothing
/// can be decoded from there to the next IDR picture.
///
/// Numbers begin anew at IDR pictures, so that after a gap the right number may be that of another group. A gap is
/// therefore only trusted if time on the screen has passed in step with the picture order count, which begins anew
/// with them.
#[derive(Clone, Debug, Default)]
pub(super) struct Chain {
    last: Option<Reference>,
    poc: PocState,
    pace: Option<Pace>,
    hole: bool,
}

#[derive(Clone, Copy, Debug)]
struct Reference {
    frame_num: u32,
    count: Option<i64>,
    ticks: i64,
}

impl Chain {
    /// Something is missing between the last frame and the next.
    pub(super) fn hole(&mut self) {
        self.hole = true;
    }

    /// Nothing can be decoded before the next IDR picture.
    pub(super) fn break_off(&mut self) {
        self.last = None;
    }

    /// Whether the frame, next in decoding order, can be decoded; if so, it is taken for decoded. `declared` is the
    /// pace by the VUI.
    pub(super) fn decode(&mut self, header: &SliceHeader, ticks: i64, declared: Option<Pace>) -> bool {
        let mut poc = self.poc;
        let count = poc.count(header);
        if !header.is_idr() && !self.follows(header, count, ticks, declared) {
            self.break_off();
            return false;
        }
        if header.is_reference() {
            self.learn_pace(header, count, ticks);
            // After an operation 5 the picture counts as number 0 (§7.4.3).
            let frame_num = if header.resets { 0 } else { header.frame_num };
            self.last = Some(Reference { frame_num, count, ticks });
            self.hole = false;
            self.poc = poc;
        }
        true
    }

    fn follows(&self, header: &SliceHeader, count: Option<i64>, ticks: i64, declared: Option<Pace>) -> bool {
        let Some(last) = self.last else { return false };
        if header.bottom_field.is_some() {
            return false;
        }
        let next = (last.frame_num + 1) % header.max_frame_num;
        if header.frame_num != next {
            return header.gaps_allowed && !self.hole;
        }
        if !self.hole {
            return true;
        }
        let (Some(pace), Some(count), Some(from)) = (self.pace.or(declared), count, last.count) else { return false };
        let (pace_ticks, pace_counts) = (i128::from(pace.ticks), i128::from(pace.counts));
        let expected = i128::from(count - from) * pace_ticks;
        let found = i128::from(ticks - last.ticks) * pace_counts;
        // One count is half of a frame.
        expected.abs_diff(found) <= pace_ticks.unsigned_abs()
    }

    fn learn_pace(&mut self, header: &SliceHeader, count: Option<i64>, ticks: i64) {
        let (Some(last), Some(count)) = (self.last, count) else { return };
        let Some(from) = last.count.filter(|_| !header.is_idr() && !header.resets && !self.hole) else { return };
        let pace = Pace { ticks: ticks - last.ticks, counts: count - from };
        if pace.ticks > 0 && pace.counts > 0 {
            self.pace = Some(pace);
        }
    }
}
