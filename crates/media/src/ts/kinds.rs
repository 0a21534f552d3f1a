//! Kinds of H.264 and H.265 frames for other carriers of them: RTP.

use timeous_core::{Priority, References};

use super::codec::{Description, VideoCodec, VideoFrames};
use super::unit::TsKind;

/// Frames of a video of H.264 or H.265 so far.
#[derive(Debug)]
pub(crate) struct VideoKinds(VideoFrames);

impl VideoKinds {
    pub(crate) fn h264() -> Self {
        Self(VideoFrames::new(VideoCodec::H264))
    }

    pub(crate) fn h265() -> Self {
        Self(VideoFrames::new(VideoCodec::H265))
    }

    /// Describes the frame `number` by the beginning of its bytes (Annex B). `None`: more bytes are needed, unless these are `all`.
    pub(crate) fn describe(&mut self, number: u32, bytes: &[u8], all: bool) -> Option<(TsKind, References, Priority)> {
        let Description { kind, references, priority } = self.0.describe(number, bytes, false, all)?;
        Some((kind, references, priority))
    }
}
