//! Sources that become a transport stream: MP4, fragmented MP4, Matroska, WebM, and raw H.265.
//!
//! The tracks that a transport stream can hold are written into one ([`TsMuxer`]), so that all else, from late choice
//! to the player, is as with any other transport stream.

mod error;
mod fragments;
mod h265;
mod matroska;
mod merge;
mod mp4;
mod mux;
mod read;
mod sample;
mod seek_head;
mod tables;
#[cfg(test)]
mod tests;
mod track;

use std::io::{Read, Seek};

pub use self::error::ContainerError;
pub use self::h265::{H265Stream, is_h265};
use self::matroska::MatroskaTracks;
use self::merge::Merge;
use self::mp4::Mp4Tracks;
pub use self::mux::TsMuxer;
pub use self::sample::Sample;
pub use self::track::{NalFormat, Track, TrackFormat};
pub use crate::aac::AacFormat;

/// Most tracks of a container. Chosen by us: their descriptions fit one section of a transport stream (ISO/IEC 13818-1 §2.4.4.8: 1021 bytes).
const MAX_TRACKS: usize = 32;

/// Returns whether bytes begin a container that this crate reads.
///
/// ```
/// use timeous_media::container::is_container;
/// assert!(is_container(&[0, 0, 0, 32, b'f', b't', b'y', b'p']));
/// assert!(is_container(&[0x1a, 0x45, 0xdf, 0xa3]));
/// assert!(!is_container(&[0, 0, 0, 1, 0x67]));
/// ```
pub fn is_container(bytes: &[u8]) -> bool {
    mp4::is_mp4(bytes) || matroska::is_matroska(bytes)
}

/// Reads a container as a transport stream.
#[derive(Debug)]
pub struct Container<R: Read + Seek> {
    tracks: Tracks<R>,
    merge: Merge,
    muxer: TsMuxer,
    left_out: Vec<String>,
}

#[derive(Debug)]
enum Tracks<R: Read + Seek> {
    Mp4(Box<Mp4Tracks<R>>),
    Matroska(Box<MatroskaTracks<R>>),
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
        let (tracks, formats, left_out) = if matroska::is_matroska(&first) {
            let (tracks, formats, left_out) = MatroskaTracks::open(from)?;
            (Tracks::Matroska(Box::new(tracks)), formats, left_out)
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
        let merge = Merge::new(&formats);
        Ok(Self { tracks, merge, muxer: TsMuxer::new(formats), left_out })
    }

    /// Tracks that are sent.
    pub fn tracks(&self) -> &[Track] {
        self.muxer.tracks()
    }

    /// Tracks that are not sent, each with the reason.
    pub fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether the file ended within a sample: it is cut off.
    pub fn is_cut_off(&self) -> bool {
        match &self.tracks {
            Tracks::Mp4(tracks) => tracks.is_cut_off,
            Tracks::Matroska(tracks) => tracks.is_cut_off,
        }
    }

    /// Reads on, and returns whole packets of the transport stream, in order of their decoding times; `None` at the end.
    ///
    /// # Errors
    /// [`ContainerError`]: the container cannot be read further.
    pub fn next_packets(&mut self) -> Result<Option<Vec<u8>>, ContainerError> {
        loop {
            if let Some(sample) = self.merge.next_sample() {
                return Ok(Some(self.muxer.push(&sample)));
            }
            let read = match &mut self.tracks {
                Tracks::Mp4(tracks) => tracks.next_sample()?,
                Tracks::Matroska(tracks) => tracks.next_sample()?,
            };
            match read {
                Some(sample) => self.merge.push(sample),
                None if self.merge.is_empty() => return Ok(None),
                None => self.merge.finish(),
            }
        }
    }
}
