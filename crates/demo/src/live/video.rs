//! Original and received video as MP4 files with a common start.

use std::path::{Path, PathBuf};
use std::{fs, io};

use timeous::core::{Duration, Rate};
use timeous_media::mp4::{Mp4Error, Mp4Writer};
use timeous_media::{Frame, FrameKind, FrameReader};

use super::plan::Files;
use crate::error::DemoError;
use crate::journal::{ReceivedFrame, SentPacket};

/// Reason why there is no video; an empty run is no failure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VideoError {
    /// There is no frame to show.
    #[error("no frame came that could be shown in time")]
    Nothing,
    /// The received file contradicts the receiver's list of frames.
    #[error("the receiver wrote {written} frames, but says that it gave out {told}")]
    Contradiction {
        /// Frames in its H.264 file.
        written: usize,
        /// Frames in its list.
        told: usize,
    },
    /// The received file cannot be parsed.
    #[error("what was received cannot be read: {0}")]
    Unreadable(String),
    /// A frame cannot be part of an MP4 file.
    #[error(transparent)]
    Mp4(#[from] Mp4Error),
}

/// Writes the original clip.
pub(crate) fn original(clip: &Clip) -> Result<Vec<u8>, VideoError> {
    let ticks = |frame: &Frame| i64::try_from(frame.rtp_ticks).unwrap_or(i64::MAX);
    write(clip.frames.iter().map(|frame| (frame, ticks(frame))))
}

/// Writes the frames that a receiver played out, each at its capture time: where one is missing, the picture freezes.
pub(crate) fn received(files: &Files, sent: &[SentPacket], received: &[ReceivedFrame]) -> Result<Vec<u8>, VideoError> {
    // A receiver creates its file with the first frame.
    let bytes = match fs::read(&files.video) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read.map_err(|error| VideoError::Unreadable(error.to_string()))?,
    };
    let shown: Vec<u32> = received.iter().filter(|frame| frame.shown).map(|frame| frame.timestamp).collect();
    if shown.is_empty() || bytes.is_empty() {
        return Err(VideoError::Nothing);
    }
    let mut reader = FrameReader::new(None);
    let frames = read_frames(&mut reader, &bytes).map_err(|error| VideoError::Unreadable(error.to_string()))?;
    if frames.len() != shown.len() {
        return Err(VideoError::Contradiction { written: frames.len(), told: shown.len() });
    }
    let first = first_timestamp(sent).ok_or(VideoError::Nothing)?;
    write(frames.iter().zip(shown.iter().map(|timestamp| ticks_between(first, *timestamp))))
}

/// RTP timestamp of the first captured frame.
fn first_timestamp(sent: &[SentPacket]) -> Option<u32> {
    sent.iter().min_by_key(|packet| packet.captured).map(|packet| packet.id.timestamp)
}

/// Ticks between two RTP timestamps, less than half a wrap apart.
fn ticks_between(from: u32, to: u32) -> i64 {
    i64::from(to.wrapping_sub(from).cast_signed())
}

/// An MP4 file of frames in decoding order, each shown at its time.
fn write<'a>(frames: impl Iterator<Item = (&'a Frame, i64)>) -> Result<Vec<u8>, VideoError> {
    let frames: Vec<(&Frame, i64)> = frames.collect();
    // Frames are decoded at a steady pace: at the times at which frames are shown, in their order.
    let mut decode: Vec<i64> = frames.iter().map(|(_, ticks)| *ticks).collect();
    decode.sort_unstable();
    let mut writer = Mp4Writer::from_origin(0);
    for ((frame, ticks), decode) in frames.into_iter().zip(decode) {
        writer.push_annexb(&frame.annexb(), ticks, decode, frame.kind == FrameKind::Idr, frame.reference)?;
    }
    writer.finish();
    Ok(writer.take())
}

/// A video with all its frames.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clip {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Its bytes.
    pub(crate) bytes: u64,
    /// Playing time.
    pub(crate) duration: Duration,
    /// Its frames, in decoding order.
    pub(crate) frames: Vec<Frame>,
}

impl Clip {
    /// Reads a file.
    pub(crate) fn read(path: &Path) -> Result<Self, DemoError> {
        let bytes = fs::read(path).map_err(DemoError::file(path))?;
        let not_streamable = |why: String| DemoError::Clip { path: path.to_owned(), why };
        let mut reader = FrameReader::new(None);
        let frames = read_frames(&mut reader, &bytes).map_err(|error| not_streamable(error.to_string()))?;
        let duration = reader.rate().time_of(frames.len() as u64);
        Ok(Self { path: path.to_owned(), bytes: bytes.len() as u64, duration, frames })
    }

    /// Its mean rate.
    pub(crate) fn rate(&self) -> Rate {
        Rate::from_bytes_in(self.bytes, self.duration)
    }
}

/// Parses all frames of a byte stream.
///
/// # Errors
/// A stream without a picture, or not H.264.
pub(crate) fn read_frames(reader: &mut FrameReader, bytes: &[u8]) -> Result<Vec<Frame>, timeous_media::MediaError> {
    reader.push(bytes)?;
    reader.finish()?;
    Ok(std::iter::from_fn(|| reader.next_frame()).collect())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use timeous::core::Instant;

    use super::super::judge::Approach;
    use super::*;
    use crate::journal::{Kind, RtpId};

    /// The video of a receiver that gave out these frames of the clip, in its order of decoding.
    fn received_of(clip: &Clip, given: &[usize], told: &[usize]) -> Result<Vec<u8>, VideoError> {
        // The clock turns over in the middle of the stream.
        let timestamp = |frame: &Frame| (frame.rtp_ticks as u32).wrapping_sub(45_000);
        let captured = |frame: &Frame| Instant::from_nanos(1_000) + frame.capture;
        let packet = |frame: &Frame| SentPacket {
            id: RtpId { timestamp: timestamp(frame), sequence: 0 },
            kind: Kind::P,
            bytes: 1_000,
            captured: captured(frame),
            deadline: None,
            given_up: false,
        };
        let frame = |index: &usize| ReceivedFrame {
            timestamp: timestamp(&clip.frames[*index]),
            completed: Some(captured(&clip.frames[*index])),
            shown: true,
        };
        let directory = tempfile::tempdir().unwrap();
        let files = Files::new(directory.path(), Approach::Udp);
        let bytes: Vec<u8> = given.iter().flat_map(|index| clip.frames[*index].annexb()).collect();
        fs::write(&files.video, bytes).unwrap();
        let sent: Vec<_> = clip.frames.iter().map(packet).collect();
        received(&files, &sent, &told.iter().map(frame).collect::<Vec<_>>())
    }

    fn clip() -> Clip {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/clip.h264");
        let mut clip = Clip::read(&path).unwrap();
        clip.frames.truncate(90);
        clip
    }

    #[test]
    fn what_came_whole_is_the_original() {
        let clip = clip();
        let all: Vec<usize> = (0..clip.frames.len()).collect();
        assert_eq!(received_of(&clip, &all, &all).unwrap(), original(&clip).unwrap());
    }

    #[test]
    fn nothing_and_contradictions_are_said() {
        let clip = clip();
        assert!(matches!(received_of(&clip, &[], &[]), Err(VideoError::Nothing)));
        let contradiction = received_of(&clip, &[0, 1], &[0]);
        assert!(matches!(contradiction, Err(VideoError::Contradiction { written: 2, told: 1 })), "{contradiction:?}");
    }

    #[test]
    fn the_clock_may_turn_over() {
        assert_eq!(ticks_between(u32::MAX, 2), 3);
        assert_eq!(ticks_between(5, 2), -3);
    }
}
