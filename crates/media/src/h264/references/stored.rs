//! Frame in the reference picture buffer.

use crate::h264::slice::SliceHeader;

/// Bits of [`Stored::fields`].
pub(super) const TOP: u8 = 1;
pub(super) const BOTTOM: u8 = 2;
pub(super) const BOTH: u8 = TOP | BOTTOM;

/// What is known of a reference frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content<T> {
    Here(T),
    /// Its number was skipped, or it was left out: it may be referred to, and is missing.
    Lost,
    /// Its number was skipped on purpose (`gaps_in_frame_num_value_allowed_flag`): nothing refers to it.
    NonExisting,
}

/// Frame that is kept for reference.
#[derive(Clone, Debug)]
pub(super) struct Stored<T> {
    pub(super) frame_num: u32,
    /// `LongTermFrameIdx`; `None` for a short-term reference.
    pub(super) long_term: Option<u32>,
    /// The fields that are marked as used for reference.
    pub(super) fields: u8,
    /// Picture order count; unknown of a frame whose number was skipped.
    pub(super) poc: Option<i64>,
    pub(super) content: Content<T>,
    /// It stands behind the entry point that decoding is taken to begin at: not before it in time, but of no use from
    /// there on.
    pub(super) old: bool,
    /// It is the frame that is being taken, whose second field may follow.
    pub(super) current: bool,
}

impl<T> Stored<T> {
    /// `FrameNumWrap`: numbers above the current one are from before the wrap-around (H.264 §8.2.4.1).
    pub(super) fn frame_num_wrap(&self, header: &SliceHeader) -> i64 {
        let number = i64::from(self.frame_num);
        if self.frame_num > header.frame_num { number - i64::from(header.max_frame_num) } else { number }
    }
}
