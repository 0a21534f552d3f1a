//! Sources that become a transport stream: MP4, fragmented MP4, Matroska, WebM, ADTS, Ogg and raw H.265; or RTP, also IVF.
//!
//! The tracks that a transport stream can hold are written into one ([`TsMuxer`]), so that all else, from late choice
//! to the player, is as with any other transport stream. Video of VP8, VP9 and AV1 becomes RTP, with its sound, as from a camera.
//! [`RtpToTs`] goes the way back, for files.

mod adts;
mod av1;
mod bounded;
mod error;
mod fragments;
mod h265;
mod ivf;
mod matroska;
mod merge;
mod mp4;
mod mux;
mod ogg;
mod plain;
mod quicktime;
mod raw;
mod read;
mod recorder;
mod resync;
mod rtp;
mod sample;
mod seek_head;
mod tables;
#[cfg(test)]
mod tests;
mod timeline;
mod track;

use std::io::{Read, Seek};

pub use self::error::ContainerError;
pub use self::h265::{H265Stream, is_h265};
use self::matroska::MatroskaTracks;
use self::merge::Read::{Presented, Timed};
use self::merge::{FILE_SPAN, Merge};
use self::mp4::Mp4Tracks;
pub use self::mux::TsMuxer;
use self::plain::PlainFile;
pub use self::raw::{RawCodec, begins_h264, find_raw_video};
pub use self::recorder::RtpToTs;
use self::rtp::RtpMuxer;
pub use self::rtp::RtpSample;
pub use self::sample::Sample;
pub use self::track::{NalFormat, Track, TrackFormat};
pub use crate::aac::AacFormat;
use crate::rtp::RTP_CLOCK_HZ;
use crate::rtp::session::MediaDescription;

/// Most tracks of a container. Chosen by us: their descriptions fit one section of a transport stream (ISO/IEC 13818-1 §2.4.4.8: 1021 bytes).
const MAX_TRACKS: usize = 32;

/// Furthest time of a sample from the first one, in ticks of 90 kHz: a year. Chosen by us: what is further is damaged, and keeps sums
/// of times from overflowing.
const MAX_TIME: i64 = 366 * 24 * 3_600 * RTP_CLOCK_HZ as i64;

/// Returns whether bytes begin a container that this crate reads.
///
/// ```
/// use timeous_media::container::is_container;
/// assert!(is_container(&[0, 0, 0, 32, b'f', b't', b'y', b'p']));
/// assert!(is_container(&[0x1a, 0x45, 0xdf, 0xa3]));
/// assert!(is_container(b"OggS") && is_container(b"DKIF"));
/// assert!(!is_container(&[0, 0, 0, 1, 0x67]));
/// ```
pub fn is_container(bytes: &[u8]) -> bool {
    mp4::is_mp4(bytes) || matroska::is_matroska(bytes) || plain::is_plain(bytes)
}

/// Reads a container as a transport stream, or as RTP.
#[derive(Debug)]
pub struct Container<R: Read + Seek> {
    tracks: Tracks<R>,
    merge: Merge,
    muxer: Muxer,
    left_out: Vec<String>,
    /// Time of the first sample.
    begin: Option<i64>,
    /// Whether nothing more is read, and why, if it is an error that is returned behind all samples.
    is_over: bool,
    is_cut_off: bool,
    failure: Option<ContainerError>,
}

/// Next part of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Muxed {
    /// Whole packets of a transport stream, in order of their decoding times.
    Ts(Vec<u8>),
    /// RTP packets of a sample.
    Rtp(RtpSample),
}

#[derive(Debug)]
enum Muxer {
    Ts(TsMuxer),
    Rtp(RtpMuxer),
}

#[derive(Debug)]
enum Tracks<R: Read + Seek> {
    Mp4(Box<Mp4Tracks<R>>),
    Matroska(Box<MatroskaTracks<R>>),
    Plain(PlainFile<R>),
}

impl<R: Read + Seek> Container<R> {
    /// Opens a container.
    ///
    /// # Errors
    /// [`ContainerError`]: it cannot be read, or no track of it can be sent.
    pub fn open(mut from: R) -> Result<Self, ContainerError> {
        let mut first = [0; 8];
        from.read_exact(&mut first)?;
        from.rewind()?;
        let (tracks, formats, mut left_out) = if matroska::is_matroska(&first) {
            let (tracks, formats, left_out) = MatroskaTracks::open(from)?;
            (Tracks::Matroska(Box::new(tracks)), formats, left_out)
        } else if plain::is_plain(&first) {
            let (file, formats, left_out) = PlainFile::open(from)?;
            (Tracks::Plain(file), formats, left_out)
        } else {
            let (tracks, formats, left_out) = Mp4Tracks::open(from)?;
            (Tracks::Mp4(Box::new(tracks)), formats, left_out)
        };
        if formats.is_empty() {
            return Err(ContainerError::NoTrack { left_out });
        }
        if formats.len() > MAX_TRACKS {
            return Err(ContainerError::Damaged(format!(
                "it has {} tracks, and at most {MAX_TRACKS} are read",
                formats.len()
            )));
        }
        let merge = Merge::new(&formats, FILE_SPAN);
        let muxer = if formats.iter().any(|track| track.format.is_for_rtp()) {
            let (muxer, more) = RtpMuxer::new(formats);
            left_out.extend(more);
            Muxer::Rtp(muxer)
        } else {
            Muxer::Ts(TsMuxer::new(formats))
        };
        Ok(Self { tracks, merge, muxer, left_out, begin: None, is_over: false, is_cut_off: false, failure: None })
    }

    /// Tracks that can be sent. Beside video that becomes RTP, some are not ([`left_out`](Self::left_out)).
    pub fn tracks(&self) -> &[Track] {
        match &self.muxer {
            Muxer::Ts(muxer) => muxer.tracks(),
            Muxer::Rtp(muxer) => muxer.tracks(),
        }
    }

    /// Descriptions of the streams, if the container becomes RTP.
    pub fn streams(&self) -> Option<Vec<MediaDescription>> {
        match &self.muxer {
            Muxer::Ts(_) => None,
            Muxer::Rtp(muxer) => Some(muxer.descriptions()),
        }
    }

    /// Tracks that are not sent, each with the reason.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether parts of the file were left out since they are damaged: MP4 went on with the next fragment, Matroska with the next cluster.
    pub fn is_damaged(&self) -> bool {
        match &self.tracks {
            Tracks::Mp4(tracks) => tracks.is_damaged(),
            Tracks::Matroska(tracks) => tracks.is_damaged(),
            Tracks::Plain(_) => false,
        }
    }

    /// Whether the file ended within a sample: it is cut off.
    pub fn is_cut_off(&self) -> bool {
        self.is_cut_off
            || match &self.tracks {
                Tracks::Mp4(tracks) => tracks.is_cut_off,
                Tracks::Matroska(tracks) => tracks.is_cut_off,
                Tracks::Plain(file) => file.is_cut_off,
            }
    }

    /// Reads on; returns `None` at the end.
    ///
    /// # Errors
    /// [`ContainerError`]: the container cannot be read further. All samples before have been returned.
    pub fn next_muxed(&mut self) -> Result<Option<Muxed>, ContainerError> {
        loop {
            if let Some(sample) = self.merge.next_sample() {
                let muxed = match &mut self.muxer {
                    Muxer::Ts(muxer) => muxer.push_stored(sample).map(Muxed::Ts),
                    Muxer::Rtp(muxer) => muxer.push(&sample).map(Muxed::Rtp),
                };
                match muxed {
                    Some(muxed) => return Ok(Some(muxed)),
                    // It is damaged, or of a track that is left out.
                    None => continue,
                }
            }
            if self.is_over && self.merge.is_empty() {
                return self.failure.take().map_or(Ok(None), Err);
            }
            match self.read() {
                Ok(Some(read)) => self.merge.push(read),
                Ok(None) => self.end(None),
                Err(ContainerError::CutOff) if self.begin.is_some() => {
                    self.is_cut_off = true;
                    self.end(None);
                }
                Err(error) => self.end(Some(error)),
            }
        }
    }

    /// Reads a sample whose time is plausible.
    fn read(&mut self) -> Result<Option<merge::Read>, ContainerError> {
        let read = match &mut self.tracks {
            Tracks::Mp4(tracks) => tracks.next_sample()?,
            Tracks::Matroska(tracks) => tracks.next_sample()?,
            Tracks::Plain(file) => file.next_sample()?,
        };
        if let Some(Timed(sample) | Presented(sample)) = &read {
            let begin = *self.begin.get_or_insert(sample.presented);
            let is_near =
                |time: i64| time.abs_diff(begin) <= MAX_TIME.unsigned_abs() && time.abs_diff(0) <= u64::MAX / 4;
            if !is_near(sample.presented) || matches!(read, Some(Timed(_))) && !is_near(sample.decode) {
                return Err(ContainerError::Damaged("a frame's time is a year from that of the first one".to_owned()));
            }
        }
        Ok(read)
    }

    fn end(&mut self, failure: Option<ContainerError>) {
        (self.is_over, self.failure) = (true, failure);
        self.merge.finish();
    }
}
