//! Counts of what a reader leaves out of a stream, by reason.

/// What a [`FrameReader`](crate::FrameReader) left out of its input. The stream went on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Slices whose parameter sets had not come: a stream that begins in the middle has them.
    pub slices_without_parameter_sets: u64,
    /// Slices whose header cannot be read.
    pub malformed_slices: u64,
    /// Parameter sets that cannot be understood. They are passed on, but slices that need them are left out.
    pub parameter_sets: u64,
    /// NAL units of type 0 or 24 to 31, which H.264 does not specify and RTP cannot carry (RFC 6184 §5.2).
    pub unspecified_types: u64,
    /// Frames, and NAL units between them, that are larger than the limit.
    pub too_large: u64,
    /// NAL units that were taken for whole when the source paused, and went on afterwards.
    pub torn: u64,
}
