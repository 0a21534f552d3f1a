//! Counters of dropped input, by reason.

/// Input that a [`FrameReader`](crate::FrameReader) dropped. The stream goes on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LeftOut {
    /// Slices whose parameter sets are missing, as when a stream is joined midway.
    pub slices_without_parameter_sets: u64,
    /// Slices with an unreadable header.
    pub malformed_slices: u64,
    /// Unreadable parameter sets. They are passed on, but slices that need them are dropped.
    pub parameter_sets: u64,
    /// NAL units of type 0 or 24 to 31, unspecified by H.264 and impossible in RTP (RFC 6184 §5.2).
    pub unspecified_types: u64,
    /// Frames, and NAL units between them, above the size limit.
    pub too_large: u64,
    /// NAL units that were treated as complete at a pause, but continued afterwards.
    pub torn: u64,
}
