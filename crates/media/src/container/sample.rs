//! Sample of a track: a picture, or a frame of audio.

/// Sample of a track, ready for a transport stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Index of its track.
    pub track: usize,
    /// Decoding time in ticks of 90 kHz since the start of the container; it may be negative.
    pub decode: i64,
    /// Presentation time in the same ticks.
    pub presented: i64,
    /// Whether a decoder can start with it.
    pub is_entry: bool,
    /// Bytes of the elementary stream.
    pub data: Vec<u8>,
}

/// Sample at a time: decoding and presentation in ticks of 90 kHz, entry point, bytes as a container holds them.
pub(super) struct PlainSample {
    pub(super) time: i64,
    pub(super) is_entry: bool,
    pub(super) data: Vec<u8>,
}
