//! The video clip, parsed as the sender does.

use std::fs;
use std::path::{Path, PathBuf};

use timeous::core::{Duration, Rate};
use timeous_media::{Frame, FrameReader};

use super::error::DemoError;

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
