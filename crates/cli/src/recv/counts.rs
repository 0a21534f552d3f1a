//! Frame and packet counts of a receiver, and the texts that report them.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use timeous::core::Duration;
use timeous_media::{FrameFate, FrameKind, FrameReport, PacketStats, WholeFrameCounts};

use super::tracks::ReceivedTrack;
use crate::meter::Fields;
use crate::track::TrackName;

/// Frame and packet counts, for statistics.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FrameCounts {
    /// Frames given out in time, with all frames that they refer to. Frames of MPEG-TS are PES packets, of video, audio and tables.
    frames_decodable: u64,
    /// I-frames among them.
    i_frames_decodable: u64,
    /// Frames of which packets never came.
    frames_incomplete: u64,
    /// Frames that were complete after their playout time.
    frames_late: u64,
    /// Frames complete in time that refer to a frame which was not.
    frames_reference_missing: u64,
    /// Complete frames that are not readable as H.264.
    frames_unreadable: u64,
    /// Frames of which nothing complete came, by gaps in the frame numbers: whole frames that the sender drops are
    /// counted here. Those after the last one that came are counted at the end, if the sender tells of them. With `--encodings` at the sender frames of the other encodings are included.
    frames_missing: u64,
    /// RTP packets no longer waited for: lost, or dropped by the sender.
    pkt_rcv_loss_total: u64,
    /// RTP packets that came after that.
    pkt_rcv_belated: u64,
    /// RTP packets that came twice.
    pkt_rcv_duplicate: u64,
    /// Packets that are not usable RTP.
    pkt_rcv_refused: u64,
    /// Streams received by this sink, one after another; all counts of frames continue over them.
    streams: u64,
    /// Latency in force, in milliseconds: the larger one of both ends.
    ms_latency: u64,
    /// Bytes of frames of raw H.264 that were given out.
    #[serde(skip)]
    bytes: u64,
}

impl FrameCounts {
    pub(super) fn new(latency: Duration) -> Self {
        Self { ms_latency: latency.as_millis(), ..Self::default() }
    }

    /// Counts a connection.
    pub(super) fn begin_stream(&mut self) {
        self.streams += 1;
    }

    pub(super) fn set_latency(&mut self, latency: Duration) {
        self.ms_latency = latency.as_millis();
    }

    /// Counts a frame of raw H.264.
    pub(super) fn count(&mut self, report: &FrameReport) {
        match report.fate {
            FrameFate::Decodable => {
                self.bytes += report.bytes as u64;
                self.frames_decodable += 1;
                let intra = matches!(report.kind, Some(FrameKind::Idr | FrameKind::I));
                self.i_frames_decodable += u64::from(intra);
            }
            FrameFate::Incomplete => self.frames_incomplete += 1,
            FrameFate::Late => self.frames_late += 1,
            FrameFate::ReferenceMissing => self.frames_reference_missing += 1,
            FrameFate::Unreadable => self.frames_unreadable += 1,
        }
    }

    /// Takes the counts of the playouts: of raw H.264, and of whole frames, if any have come. `told`: missing frames of
    /// which only the sender told.
    pub(super) fn take(&mut self, packets: PacketStats, whole: Option<WholeFrameCounts>, told: u64) {
        self.frames_missing = packets.frames_missing;
        self.pkt_rcv_loss_total = packets.lost;
        self.pkt_rcv_belated = packets.late;
        self.pkt_rcv_duplicate = packets.duplicate;
        self.pkt_rcv_refused = packets.refused;
        if let Some(whole) = whole {
            self.frames_decodable = whole.released;
            self.i_frames_decodable = whole.entries;
            self.frames_incomplete = whole.incomplete;
            self.frames_late = whole.late;
            self.frames_reference_missing = whole.reference_missing;
            self.frames_missing = whole.missing;
            self.pkt_rcv_duplicate = whole.duplicate;
            self.pkt_rcv_refused += whole.refused;
        }
        self.frames_missing += told;
    }

    /// Frames that are known: each has one fate.
    pub(super) fn fates(&self) -> u64 {
        self.frames_decodable
            + self.frames_incomplete
            + self.frames_late
            + self.frames_reference_missing
            + self.frames_unreadable
            + self.frames_missing
    }

    /// Counts as those of the only stream, raw H.264; `None` while no frame of a known kind has come.
    pub(super) fn video(&self) -> Option<ReceivedTrack> {
        let track = ReceivedTrack {
            name: TrackName::h264(0),
            frames_decodable: self.frames_decodable,
            i_frames_decodable: self.i_frames_decodable,
            frames_incomplete: self.frames_incomplete,
            frames_late: self.frames_late,
            frames_reference_missing: self.frames_reference_missing,
            frames_missing: self.frames_missing,
            byte_decodable: self.bytes,
        };
        (track.fates() > 0).then_some(track)
    }

    /// Summary of all streams in a sentence.
    pub(super) fn summary(&self) -> String {
        format!(
            "{} frames: {} in time, {} late, {} missing, {} incomplete, {} without what they refer to{}",
            self.fates(),
            self.frames_decodable,
            self.frames_late,
            self.frames_missing,
            self.frames_incomplete,
            self.frames_reference_missing,
            if self.frames_unreadable > 0 { format!(", {} unreadable", self.frames_unreadable) } else { String::new() }
        )
    }
}

/// Progress line of a record.
pub(super) fn line(record: &Fields) -> String {
    let number = |name: &str| record.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    format!(
        "{:6.1} s  {:7.0} kbit/s  {:7} packets  frames in time {} (I {})  incomplete {}  late {}  undecodable {}",
        number("msTimeStamp") / 1e3,
        number("mbpsRecvRate") * 1e3,
        number("pktRecvTotal"),
        number("framesDecodable"),
        number("iFramesDecodable"),
        number("framesIncomplete"),
        number("framesLate"),
        number("framesReferenceMissing"),
    )
}
