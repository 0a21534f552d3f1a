//! Picture order count (H.264 §8.2.1), which gives the display order.

use super::slice::{PocCycle, PocSyntax, SliceHeader};

/// Bound on counts of type 1, whose operands a hostile stream may choose.
const LIMIT: i64 = 1 << 40;

/// State for deriving the next picture order count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PocState {
    prev_msb: i64,
    prev_lsb: i64,
    prev_frame_num: u32,
    frame_num_offset: i64,
}

impl PocState {
    /// State of a decoder that starts with this picture, whatever its count.
    pub(crate) fn starting_at(header: &SliceHeader) -> Self {
        let prev_lsb = if let PocSyntax::Lsb { lsb, .. } = header.poc { lsb.into() } else { 0 };
        Self { prev_lsb, prev_frame_num: header.frame_num, ..Self::default() }
    }

    /// Returns the count of the next picture in decoding order; for a frame, that of its earlier field.
    ///
    /// Memory management operation 5 restarts the count with the picture itself, as an IDR picture does.
    pub(crate) fn count(&mut self, header: &SliceHeader) -> i64 {
        match &header.poc {
            PocSyntax::Lsb { lsb, delta_bottom, max_lsb } => {
                self.lsb_count(header, (*lsb).into(), (*delta_bottom).into(), (*max_lsb).into())
            }
            PocSyntax::Cycle { deltas, cycle } => self.cycle_count(header, *deltas, cycle),
            PocSyntax::DecodingOrder => self.frame_num_count(header),
        }
    }

    /// Type 0 (§8.2.1.1).
    fn lsb_count(&mut self, header: &SliceHeader, lsb: i64, delta_bottom: i64, max_lsb: i64) -> i64 {
        if header.is_idr() {
            (self.prev_msb, self.prev_lsb) = (0, 0);
        }
        let msb = if lsb < self.prev_lsb && self.prev_lsb - lsb >= max_lsb / 2 {
            self.prev_msb + max_lsb
        } else if lsb > self.prev_lsb && lsb - self.prev_lsb > max_lsb / 2 {
            self.prev_msb - max_lsb
        } else {
            self.prev_msb
        };
        let top = msb + lsb;
        let count = top.min(top + delta_bottom);
        if header.resets() {
            let bottom = header.bottom_field == Some(true);
            (self.prev_msb, self.prev_lsb) = (0, if bottom { 0 } else { top - count });
            return 0;
        }
        if header.is_reference() {
            (self.prev_msb, self.prev_lsb) = (msb, lsb);
        }
        count
    }

    /// Type 1 (§8.2.1.2).
    fn cycle_count(&mut self, header: &SliceHeader, deltas: [i32; 2], cycle: &PocCycle) -> i64 {
        let offset = self.frame_num_offset(header);
        let length = cycle.offsets_for_ref_frame.len() as i64;
        let mut frame_num = if length == 0 { 0 } else { offset + i64::from(header.frame_num) };
        if !header.is_reference() && frame_num > 0 {
            frame_num -= 1;
        }
        let mut expected = 0;
        if frame_num > 0 {
            let sum = |offsets: &[i32]| offsets.iter().copied().map(i64::from).sum::<i64>();
            let (cycles, place) = ((frame_num - 1) / length, (frame_num - 1) % length);
            expected = cycles.saturating_mul(sum(&cycle.offsets_for_ref_frame)).clamp(-LIMIT, LIMIT);
            expected += sum(&cycle.offsets_for_ref_frame[..=place as usize]);
        }
        if !header.is_reference() {
            expected += i64::from(cycle.offset_for_non_ref_pic);
        }
        let first = expected + i64::from(deltas[0]);
        let second = first + i64::from(cycle.offset_for_top_to_bottom_field);
        let count = match header.bottom_field {
            None => first.min(second + i64::from(deltas[1])),
            Some(false) => first,
            Some(true) => second,
        };
        self.end_of_numbered(header, count)
    }

    /// Type 2 (§8.2.1.3).
    fn frame_num_count(&mut self, header: &SliceHeader) -> i64 {
        let count = 2 * (self.frame_num_offset(header) + i64::from(header.frame_num));
        let count = if header.is_reference() { count } else { count - 1 };
        self.end_of_numbered(header, count)
    }

    fn frame_num_offset(&mut self, header: &SliceHeader) -> i64 {
        if header.is_idr() {
            self.frame_num_offset = 0;
        } else if self.prev_frame_num > header.frame_num {
            self.frame_num_offset += i64::from(header.max_frame_num);
        }
        self.prev_frame_num = header.frame_num;
        self.frame_num_offset
    }

    fn end_of_numbered(&mut self, header: &SliceHeader, count: i64) -> i64 {
        if header.resets() {
            (self.frame_num_offset, self.prev_frame_num) = (0, 0);
            return 0;
        }
        count
    }
}
