//! Frame in the reference picture buffer: its data, marking and order.

use crate::h264::slice::SliceHeader;

/// Bits of [`ReferenceFrame::fields`].
pub(super) const TOP: u8 = 1;
pub(super) const BOTTOM: u8 = 2;
pub(super) const BOTH: u8 = TOP | BOTTOM;

/// Availability of a reference frame, with the caller's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReferenceState<T> {
    Here(T),
    /// The frame was lost or dropped, but may be referred to.
    Lost,
    /// The number was skipped on purpose (`gaps_in_frame_num_value_allowed_flag`), and is never referred to.
    NonExisting,
}

/// Frame kept for reference.
#[derive(Clone, Debug)]
pub(super) struct ReferenceFrame<T> {
    pub(super) frame_num: u32,
    /// `LongTermFrameIdx`; `None` for a short-term reference.
    pub(super) long_term: Option<u32>,
    /// Fields marked as used for reference.
    pub(super) fields: u8,
    /// Picture order count; unknown if the number was skipped.
    pub(super) poc: Option<i64>,
    pub(super) content: ReferenceState<T>,
    /// Whether it is older than the last non-IDR entry point, or a leading picture of it: pictures displayed after the
    /// entry point do not refer to it.
    pub(super) old: bool,
    /// Whether it is the current frame, whose second field may follow.
    pub(super) current: bool,
}

impl<T> ReferenceFrame<T> {
    /// `FrameNumWrap`: numbers above the current one are from before the wrap-around (H.264 §8.2.4.1).
    pub(super) fn frame_num_wrap(&self, header: &SliceHeader) -> i64 {
        let number = i64::from(self.frame_num);
        if self.frame_num > header.frame_num { number - i64::from(header.max_frame_num) } else { number }
    }
}
