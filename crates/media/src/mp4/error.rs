//! Reasons for which a frame cannot be part of an MP4 file.

use crate::error::MediaError;

/// Why a frame was not taken. It says nothing about the frames before and after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mp4Error {
    /// The frame is not the byte stream that it should be.
    #[error("the frame cannot be read: {0}")]
    Frame(#[from] MediaError),
    /// The frame has no slice.
    #[error("the frame holds no coded picture")]
    NoPicture,
    /// The parameter sets that the frame refers to are unknown.
    #[error("the frame's parameter sets are not known")]
    NoParameterSets,
    /// The file has not begun, since no decoder could begin with this frame.
    #[error("no decoder can begin with the frame: an MP4 file begins with an IDR frame")]
    NoEntry,
    /// The picture does not fit into the format's fields.
    #[error("the video cannot be expressed as MP4: {0}")]
    Format(String),
    /// The times of the frame are out of range.
    #[error("the frame's decoding or presentation time is out of range: it is far from the time of the other frames")]
    Time,
}
