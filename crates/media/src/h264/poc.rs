//! The picture order count (H.264 §8.2.1): in which order pictures are shown.

use super::slice::{PocSyntax, SliceHeader};

/// What the count of the next picture is derived from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PocState {
    prev_msb: i64,
    prev_lsb: i64,
    prev_frame_num: u32,
    frame_num_offset: i64,
}

impl PocState {
    /// The count of a frame that follows in decoding order, or `None` for type 1, which hardly anybody writes.
    ///
    /// A memory management operation 5 starts the count anew with the picture itself, as an IDR picture does.
    pub(crate) fn count(&mut self, header: &SliceHeader) -> Option<i64> {
        match header.poc {
            PocSyntax::Lsb { lsb, delta_bottom, max_lsb } => {
                Some(self.lsb_count(header, lsb.into(), delta_bottom.into(), max_lsb.into()))
            }
            PocSyntax::DecodingOrder => Some(self.frame_num_count(header)),
            PocSyntax::Deltas(_) => None,
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
        if header.resets {
            (self.prev_msb, self.prev_lsb) = (0, top - count);
            return 0;
        }
        if header.is_reference() {
            (self.prev_msb, self.prev_lsb) = (msb, lsb);
        }
        count
    }

    /// Type 2 (§8.2.1.3).
    fn frame_num_count(&mut self, header: &SliceHeader) -> i64 {
        if header.is_idr() {
            self.frame_num_offset = 0;
        } else if self.prev_frame_num > header.frame_num {
            self.frame_num_offset += i64::from(header.max_frame_num);
        }
        self.prev_frame_num = header.frame_num;
        let count = 2 * (self.frame_num_offset + i64::from(header.frame_num));
        if header.resets {
            (self.frame_num_offset, self.prev_frame_num) = (0, 0);
            return 0;
        }
        if header.is_reference() { count } else { count - 1 }
    }
}
