//! Name of a stream of a source, in the statistics of both ends: number, kind and codec.

use std::fmt::{Display, Formatter, Result};

use schemars::JsonSchema;
use serde::Serialize;
use timeous_media::ts::{StreamKind, TsStream};
use timeous_media::{MediaDescription, MediaKind};

/// Number, kind and codec of a stream of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TrackName {
    /// PID of MPEG-TS, or number of the RTP stream or encoding, from zero.
    pub(crate) id: u16,
    /// `video`, `audio`, `subtitles`, `data`, `tables` of MPEG-TS, or `clock`: packets of a PID with nothing but its clock.
    pub(crate) kind: String,
    /// Codec; empty if it is not known.
    pub(crate) codec: String,
}

impl TrackName {
    /// Raw H.264.
    pub(crate) fn h264(id: u16) -> Self {
        Self { id, kind: StreamKind::Video.to_string(), codec: "H.264".to_owned() }
    }

    /// Stream of RTP with a description.
    pub(crate) fn described(id: u16, stream: &MediaDescription) -> Self {
        let kind = match stream.kind {
            MediaKind::Audio => StreamKind::Audio,
            MediaKind::Video => StreamKind::Video,
            MediaKind::Other => StreamKind::Data,
        };
        Self { id, kind: kind.to_string(), codec: stream.codec.clone() }
    }

    /// Number by which both ends know it: packets with nothing but a clock share their PID with another stream.
    pub(crate) fn number(&self) -> u32 {
        let is_clock = self.kind == StreamKind::Clock.to_string();
        u32::from(self.id) | u32::from(is_clock) << u16::BITS
    }

    /// Whether people look at it, or listen to it.
    pub(crate) fn is_media(&self) -> bool {
        ![StreamKind::Tables, StreamKind::Clock].iter().any(|kind| self.kind == kind.to_string())
    }
}

impl From<TsStream> for TrackName {
    fn from(stream: TsStream) -> Self {
        Self { id: stream.pid, kind: stream.kind.to_string(), codec: stream.codec.to_owned() }
    }
}

impl Display for TrackName {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let kind = if self.kind.is_empty() { "stream" } else { &self.kind };
        let gap = if self.codec.is_empty() { "" } else { " " };
        write!(f, "{kind}{gap}{} ({})", self.codec, self.id)
    }
}
