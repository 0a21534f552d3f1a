//! Matroska and WebM (RFC 9559), by matroska-demuxer.

use std::io::{ErrorKind, Read as IoRead, Seek};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use matroska_demuxer::{ContentCompAlgo, ContentEncodingValue, DemuxError, Frame, MatroskaFile, TrackEntry, TrackType};

use super::bounded::{Bounded, MOST_READS};
use super::error::ContainerError;
use super::merge::Read;
use super::read::HZ;
use super::resync::{Resync, Resynced};
use super::sample::Sample;
use super::seek_head::WithoutSeekHead;
use super::track::{NalFormat, Track, TrackFormat};
use crate::aac::AacFormat;

/// Most errors of a file behind which reading goes on. Chosen by us: a damaged file has a few, a hostile one would take time.
const MAX_ERRORS: u32 = 4_096;
const NANOS_A_SECOND: i128 = 1_000_000_000;

/// Whether bytes begin a Matroska file (EBML header, RFC 8794 §11.2.1).
pub(super) fn is_matroska(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1a, 0x45, 0xdf, 0xa3])
}

/// Tracks of a file.
pub(super) struct MatroskaTracks<R: IoRead + Seek> {
    file: MatroskaFile<WithoutSeekHead<Bounded<Resynced<R>>>>,
    /// Reads that are left until the next frame.
    left: Arc<AtomicU32>,
    resync: Arc<Resync>,
    /// Nanoseconds of a timestamp's unit.
    scale: u64,
    tracks: Vec<FileTrack>,
    frame: Frame,
    errors: u32,
    /// Whether the file ended within a frame.
    pub(super) is_cut_off: bool,
}

/// Track of a file that is sent.
#[derive(Debug)]
struct FileTrack {
    number: u64,
    format: TrackFormat,
    /// Bytes that each frame begins with, and that are stored once.
    stripped: Vec<u8>,
    /// Delay of its codec in nanoseconds.
    delay: u64,
}

impl<R: IoRead + Seek> std::fmt::Debug for MatroskaTracks<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MatroskaTracks").field("tracks", &self.tracks).finish_non_exhaustive()
    }
}

impl<R: IoRead + Seek> MatroskaTracks<R> {
    /// Opens a file; returns its tracks that are sent, and what is left out.
    pub(super) fn open(from: R) -> Result<(Self, Vec<Track>, Vec<String>), ContainerError> {
        let left = Arc::new(AtomicU32::new(MOST_READS));
        let resync = Arc::new(Resync::default());
        let from = WithoutSeekHead::new(Bounded::new(Resynced::new(from, resync.clone())?, left.clone()))?;
        let file = MatroskaFile::open(from).map_err(unreadable)?;
        resync.is_reading.store(true, Ordering::Relaxed);
        let (mut tracks, mut formats, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
        for entry in file.tracks() {
            let number = entry.track_number().get();
            match stripped_of(entry).and_then(|stripped| Ok((stripped, format_of(entry)?))) {
                Ok((stripped, format)) => {
                    let language = entry.language().and_then(|language| language.as_bytes().try_into().ok());
                    formats.push(Track { format: format.clone(), language });
                    tracks.push(FileTrack { number, format, stripped, delay: entry.codec_delay().unwrap_or(0) });
                }
                Err(reason) => left_out.push(format!("track {number}: {reason}")),
            }
        }
        let scale = file.info().timestamp_scale().get();
        Ok((
            Self { file, left, resync, scale, tracks, frame: Frame::default(), errors: 0, is_cut_off: false },
            formats,
            left_out,
        ))
    }

    /// Whether a part of the file was left out as damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.resync.found.load(Ordering::Relaxed) > 0
    }

    /// Next sample of a track that is sent. Behind damage it goes on with the next cluster.
    pub(super) fn next_sample(&mut self) -> Result<Option<Read>, ContainerError> {
        loop {
            self.frame.duration = None;
            self.left.store(MOST_READS, Ordering::Relaxed);
            match self.file.next_frame(&mut self.frame) {
                Ok(true) => {}
                Ok(false) => {
                    self.is_cut_off = self.resync.is_at_end.load(Ordering::Relaxed);
                    return Ok(None);
                }
                Err(_) if self.errors < MAX_ERRORS => {
                    self.errors += 1;
                    self.resync.is_wanted.store(true, Ordering::Relaxed);
                    continue;
                }
                Err(error) => return Err(unreadable(error)),
            }
            let frame = &mut self.frame;
            let Some(index) = self.tracks.iter().position(|track| track.number == frame.track) else { continue };
            let track = &self.tracks[index];
            let nanos = i128::from(frame.timestamp) * i128::from(self.scale) - i128::from(track.delay);
            let presented = i64::try_from(nanos * HZ / NANOS_A_SECOND).unwrap_or(i64::MAX / 4);
            let mut data = track.stripped.clone();
            data.append(&mut frame.data);
            // Blocks in groups do not tell; entry points of their codecs are found by their headers.
            let is_entry = frame.is_keyframe.unwrap_or_else(|| track.format.is_entry(&data));
            return Ok(Some(Read::Presented(Sample { track: index, decode: presented, presented, is_entry, data })));
        }
    }
}

/// Scope of an encoding: all blocks of the track (RFC 9559 §5.1.4.1.31.3).
const OF_BLOCKS: u64 = 1;

/// Bytes that frames begin with. Other compressions and encryption are not supported.
fn stripped_of(entry: &TrackEntry) -> Result<Vec<u8>, String> {
    let mut stripped = Vec::new();
    let of_blocks = |scope: u64| scope & OF_BLOCKS != 0;
    for encoding in entry.content_encodings().unwrap_or_default().iter().filter(|encoding| of_blocks(encoding.scope()))
    {
        match encoding.encoding() {
            ContentEncodingValue::Compression(how) if how.algo() == ContentCompAlgo::Stripping => {
                stripped.extend_from_slice(how.settings().unwrap_or_default());
            }
            ContentEncodingValue::Encryption(_) => return Err("it is encrypted".to_owned()),
            _ => return Err("it is compressed".to_owned()),
        }
    }
    Ok(stripped)
}

fn format_of(entry: &TrackEntry) -> Result<TrackFormat, String> {
    let private = entry.codec_private().unwrap_or_default();
    let damaged = || format!("its header cannot be read ({})", entry.codec_id());
    match entry.codec_id() {
        "V_MPEG4/ISO/AVC" => NalFormat::read_avc(private).map(TrackFormat::H264).ok_or_else(damaged),
        "V_MPEGH/ISO/HEVC" => NalFormat::read_hevc(private).map(TrackFormat::H265).ok_or_else(damaged),
        "V_MPEG1" | "V_MPEG2" => Ok(TrackFormat::Mpeg2 { header: private.to_vec() }),
        "A_MPEG/L1" | "A_MPEG/L2" | "A_MPEG/L3" => Ok(TrackFormat::MpegAudio),
        "A_AC3" => Ok(TrackFormat::Ac3),
        "A_EAC3" => Ok(TrackFormat::Eac3),
        "A_OPUS" => {
            // OpusHead (RFC 7845 §5.1): the channels are its tenth byte.
            let channels = private.get(9).copied().unwrap_or(2);
            Ok(TrackFormat::Opus { channels })
        }
        "V_VP8" => Ok(TrackFormat::Vp8),
        "V_VP9" => Ok(TrackFormat::Vp9),
        // Behind four bytes of the configuration stands the sequence header.
        "V_AV1" => Ok(TrackFormat::Av1 { header: private.get(4..).unwrap_or_default().to_vec() }),
        "A_AAC" => AacFormat::read_config(private).map(TrackFormat::Aac).ok_or_else(damaged),
        id if entry.track_type() == TrackType::Subtitle => Err(format!("subtitles ({id})")),
        id => Err(format!("a transport stream cannot hold {id}")),
    }
}

/// Whether an error is the end of a file within an element.
fn is_end(error: &DemuxError) -> bool {
    match error {
        DemuxError::IoError(error) => error.kind() == ErrorKind::UnexpectedEof,
        DemuxError::ElementSizeExceedsStream { .. } => true,
        _ => false,
    }
}

/// Some of the demuxer's errors have no text of their own.
fn unreadable(error: DemuxError) -> ContainerError {
    match error {
        // A header without a frame, such as of a recording that was interrupted at once.
        DemuxError::CantFindCluster => ContainerError::CutOff,
        error if is_end(&error) => ContainerError::CutOff,
        error => ContainerError::Damaged(format!("{error:?}")),
    }
}
