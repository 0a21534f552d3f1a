//! Part of a source's media: slices of a video frame, or packets of a transport stream.

use timeous::core::Duration;
use timeous_media::ts::{TsKind, TsUnit};
use timeous_media::{FrameKind, FramePart};

/// Slices of a video frame, or packets of a transport stream.
pub(crate) enum MediaPart {
    /// A video frame, or some of its slices.
    Video(FramePart),
    /// Packets of a transport stream.
    Ts(TsUnit),
}

impl MediaPart {
    /// Whether a frame, or a PES packet, begins here.
    pub(crate) fn is_first(&self) -> bool {
        match self {
            Self::Video(part) => part.first,
            Self::Ts(unit) => unit.first == 0,
        }
    }

    /// Whether a decoder can start here.
    pub(crate) fn is_entry(&self) -> bool {
        match self {
            Self::Video(part) => part.first && part.frame.entry.is_some(),
            Self::Ts(unit) => unit.first == 0 && unit.kind == TsKind::VideoEntry,
        }
    }

    /// Whether it is of a keyframe.
    pub(crate) fn is_keyframe(&self) -> bool {
        match self {
            Self::Video(part) => matches!(part.frame.kind, FrameKind::Idr | FrameKind::I),
            Self::Ts(unit) => unit.kind == TsKind::VideoEntry,
        }
    }

    /// Number of its frame.
    pub(crate) fn number(&self) -> u32 {
        match self {
            Self::Video(part) => part.frame.index,
            Self::Ts(unit) => unit.frame,
        }
    }

    /// Kind of its frame, for the journal.
    pub(crate) fn kind(&self) -> String {
        match self {
            Self::Video(part) => format!("{:?}", part.frame.kind),
            Self::Ts(unit) => format!("{:?}", unit.kind),
        }
    }

    /// NAL units of a video frame, which may hold parameter sets.
    pub(crate) fn nals(&self) -> &[Vec<u8>] {
        match self {
            Self::Video(part) => &part.frame.nals,
            Self::Ts(_) => &[],
        }
    }

    /// Earliest time at which a paced source sends it, since its start.
    pub(crate) fn handover(&self) -> Duration {
        match self {
            Self::Video(part) => part.frame.handover,
            Self::Ts(unit) => unit.time.unwrap_or_default(),
        }
    }

    /// Whether it is of a transport stream.
    pub(crate) fn is_ts(&self) -> bool {
        matches!(self, Self::Ts(_))
    }
}
