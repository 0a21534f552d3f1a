//! Part of a source's media: slices of a video frame, packets of a transport stream, or an RTP packet of another codec.

use timeous::core::{Duration, Instant};
use timeous_media::passthrough::PassthroughUnit;
use timeous_media::ts::TsUnit;
use timeous_media::{FrameKind, FramePart, UnitKind};

/// Format of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// H.264, which is depacketized.
    Video,
    /// A transport stream.
    Ts,
    /// RTP of any payload, which passes as it is.
    Passthrough,
}

/// Slices of a video frame, packets of a transport stream, or an RTP packet of another codec.
pub(crate) enum MediaPart {
    /// A video frame, or some of its slices.
    Video(FramePart),
    /// Packets of a transport stream.
    Ts(TsUnit),
    /// An RTP packet.
    Passthrough(PassthroughUnit),
}

impl MediaPart {
    /// Whether a frame, or a PES packet, begins here.
    pub(crate) fn is_first(&self) -> bool {
        match self {
            Self::Video(part) => part.first,
            Self::Ts(unit) => unit.first == 0,
            Self::Passthrough(unit) => unit.first == 0,
        }
    }

    /// Whether a decoder can start here.
    pub(crate) fn is_entry(&self) -> bool {
        match self {
            Self::Video(part) => part.first && part.frame.entry.is_some(),
            Self::Ts(unit) => unit.first == 0 && unit.kind == UnitKind::VideoEntry,
            Self::Passthrough(unit) => unit.first == 0 && unit.kind == UnitKind::VideoEntry,
        }
    }

    /// Whether it is of a keyframe.
    pub(crate) fn is_keyframe(&self) -> bool {
        match self {
            Self::Video(part) => matches!(part.frame.kind, FrameKind::Idr | FrameKind::I),
            Self::Ts(unit) => unit.kind == UnitKind::VideoEntry,
            Self::Passthrough(unit) => unit.kind == UnitKind::VideoEntry,
        }
    }

    /// Number of its frame.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Video(part) => part.frame.index,
            Self::Ts(unit) => unit.frame,
            Self::Passthrough(unit) => unit.frame,
        }
    }

    /// Kind of its frame, for the journal.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Video(part) => format!("{:?}", part.frame.kind),
            Self::Ts(unit) => format!("{:?}", unit.kind),
            Self::Passthrough(unit) => format!("{:?}", unit.kind),
        }
    }

    /// NAL units of a video frame, which may hold parameter sets.
    pub(crate) fn nals(&self) -> &[Vec<u8>] {
        match self {
            Self::Video(part) => &part.frame.nals,
            Self::Ts(_) | Self::Passthrough(_) => &[],
        }
    }

    /// Earliest time at which a paced source sends it, since its start.
    pub(crate) fn handover(&self) -> Duration {
        match self {
            Self::Video(part) => part.frame.handover,
            Self::Ts(unit) => unit.time.unwrap_or_default(),
            // A file's capture times begin at zero.
            Self::Passthrough(unit) => unit.captured.saturating_since(Instant::ZERO),
        }
    }

    /// Format of the source.
    pub(crate) fn format(&self) -> Format {
        match self {
            Self::Video(_) => Format::Video,
            Self::Ts(_) => Format::Ts,
            Self::Passthrough(_) => Format::Passthrough,
        }
    }

    /// Whether it is of a PES packet that no decoder can do anything with before those that it refers to.
    pub(crate) fn depends(&self) -> bool {
        matches!(self, Self::Ts(unit) if !unit.references.is_empty())
    }

    /// Whether a receiver can begin anywhere: there are streams besides the video, and it looks for an entry point itself.
    pub(crate) fn begins_anywhere(&self) -> bool {
        self.format() != Format::Video
    }
}
