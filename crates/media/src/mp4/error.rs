//! MP4 errors: reasons for which a frame cannot be stored.

use crate::error::MediaError;

/// Reason for which a frame was refused. Other frames are not affected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mp4Error {
    /// The frame is not a valid byte stream.
    #[error("the frame cannot be read: {0}")]
    Frame(#[from] MediaError),
    /// The frame has no slice.
    #[error("the frame holds no coded picture")]
    NoPicture,
    /// The parameter sets that the frame refers to are unknown.
    #[error("the frame's parameter sets are not known")]
    NoParameterSets,
    /// The file has not started, and this frame is no entry point.
    #[error("no decoder can begin with the frame: an MP4 file begins with an IDR frame")]
    NoEntry,
    /// The picture format cannot be expressed in MP4.
    #[error("the video cannot be expressed as MP4: {0}")]
    Format(String),
    /// The times of the frame are out of range.
    #[error("the frame's decoding or presentation time is out of range: it is far from the time of the other frames")]
    Time,
}
