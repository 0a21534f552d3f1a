//! Statistics of each stream of a source at the receiver: video, audio, subtitles and others.

use schemars::JsonSchema;
use serde::Serialize;
use timeous_media::WholeFrameCounts;

use crate::track::TrackName;

/// Statistics of a stream of the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReceivedTrack {
    #[serde(flatten)]
    pub(super) name: TrackName,
    /// Frames given out in time, with all frames that they refer to.
    pub(super) frames_decodable: u64,
    /// Those of them at which a decoder can start.
    pub(super) i_frames_decodable: u64,
    /// Frames of which packets never came.
    pub(super) frames_incomplete: u64,
    /// Frames that were complete after their playout time.
    pub(super) frames_late: u64,
    /// Frames complete in time that refer to a frame which was not.
    pub(super) frames_reference_missing: u64,
    /// Frames of which nothing came: given up by the sender, or lost. Those after the last one that came are counted at the end, if the
    /// sender tells of them.
    pub(super) frames_missing: u64,
    /// Bytes of the frames given out.
    pub(super) byte_decodable: u64,
}

impl ReceivedTrack {
    /// Statistics of a stream that is played out as whole frames.
    pub(super) fn new(name: TrackName, counts: &WholeFrameCounts) -> Self {
        Self {
            name,
            frames_decodable: counts.released,
            i_frames_decodable: counts.entries,
            frames_incomplete: counts.incomplete,
            frames_late: counts.late,
            frames_reference_missing: counts.reference_missing,
            frames_missing: counts.missing,
            byte_decodable: counts.bytes,
        }
    }

    /// Frames that are known: each has one fate.
    pub(super) fn fates(&self) -> u64 {
        self.frames_decodable
            + self.frames_incomplete
            + self.frames_late
            + self.frames_reference_missing
            + self.frames_missing
    }

    /// Summary for people.
    fn line(&self) -> String {
        format!(
            "{}: {} frames: {} in time, {} late, {} missing, {} incomplete, {} without what they refer to; {}B",
            self.name,
            self.fates(),
            self.frames_decodable,
            self.frames_late,
            self.frames_missing,
            self.frames_incomplete,
            self.frames_reference_missing,
            crate::figures::scaled(self.byte_decodable),
        )
    }
}

/// A line for each stream that is of use to people, if there are several.
pub(super) fn lines(tracks: &[ReceivedTrack]) -> Vec<String> {
    let media: Vec<_> = tracks.iter().filter(|track| track.name.is_media()).collect();
    media.iter().filter(|_| media.len() > 1).map(|track| track.line()).collect()
}
