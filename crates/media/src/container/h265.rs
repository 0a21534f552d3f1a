//! Raw H.265 (Annex B) as a transport stream, whose times follow from the order of its pictures and the frame rate.

use super::mux::TsMuxer;
use super::sample::Sample;
use super::track::{AUD_H265, NalFormat, Track, TrackFormat};
use crate::error::MediaError;
use crate::frame::FrameRate;
use crate::h264::annexb::{NalSplitter, START_CODE};
use crate::h265::nal::{self, NalHeader};
use crate::h265::pictures::Pictures;

/// Most bytes of a picture. Chosen by us, as for H.264: more takes memory.
const MAX_PICTURE: usize = 16 << 20;

/// Returns whether bytes begin a stream of raw H.265: a parameter set, a delimiter or SEI in the base layer.
///
/// ```
/// use timeous_media::container::is_h265;
/// assert_eq!(is_h265(&[0, 0, 0, 1, 0x40, 1, 12]), Some(true));
/// assert_eq!(is_h265(&[0, 0, 0, 1, 0x67, 66, 0]), Some(false));
/// assert_eq!(is_h265(&[0, 0, 0]), None);
/// ```
pub fn is_h265(bytes: &[u8]) -> Option<bool> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    match bytes.get(zeros..) {
        // These types have their reference bits set, which H.264 forbids for its own types of the same number.
        Some([1, first, second, ..]) => {
            Some(zeros >= 2 && matches!(first, 0x40 | 0x42 | 0x44 | 0x46 | 0x4e) && *second == 1)
        }
        Some([1, ..] | []) => None,
        _ => Some(false),
    }
}

/// Reads raw H.265 as a transport stream. A picture is known to be whole when the next one begins.
///
/// ```
/// use timeous_media::container::H265Stream;
/// let mut stream = H265Stream::new(None);
/// let packets = stream.push(&[0, 0, 0, 1, 0x40, 1, 12])?;
/// assert!(packets.is_empty(), "no picture is whole yet");
/// # Ok::<(), timeous_media::MediaError>(())
/// ```
#[derive(Debug)]
pub struct H265Stream {
    rate: FrameRate,
    splitter: NalSplitter,
    /// Picture so far, and whether a slice of it has come.
    picture: Vec<u8>,
    has_slice: bool,
    pictures: Pictures,
    /// Number of the next picture in coding order.
    number: u32,
    /// Number in output order of the picture whose count is zero.
    origin: i64,
    muxer: TsMuxer,
}

impl H265Stream {
    /// Creates a reader of pictures at this rate, 25 a second unless given.
    pub fn new(rate: Option<FrameRate>) -> Self {
        let track = Track { format: TrackFormat::H265(NalFormat::default()), language: None };
        Self {
            rate: rate.unwrap_or(FrameRate::DEFAULT),
            splitter: NalSplitter::default(),
            picture: Vec::new(),
            has_slice: false,
            pictures: Pictures::default(),
            number: 0,
            origin: 0,
            muxer: TsMuxer::new(vec![track]),
        }
    }

    /// Takes bytes of the stream; returns packets of the pictures that they end.
    ///
    /// # Errors
    /// [`MediaError`]: the stream is no byte stream of NAL units.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<u8>, MediaError> {
        self.splitter.push(bytes)?;
        Ok(self.take())
    }

    /// Ends the stream; returns packets of the last picture.
    ///
    /// # Errors
    /// [`MediaError::NoH265Picture`]: it has none.
    pub fn finish(&mut self) -> Result<Vec<u8>, MediaError> {
        self.splitter.finish()?;
        let mut out = self.take();
        out.extend(self.end());
        if self.number == 0 {
            return Err(MediaError::NoH265Picture { bytes: self.splitter.bytes() });
        }
        Ok(out)
    }

    fn take(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(nal) = self.splitter.next_nal() {
            let Some(header) = NalHeader::read(&nal) else { continue };
            let is_first_slice =
                header.is_slice() && header.layer == 0 && nal.get(nal::HEADER).is_some_and(|flags| flags & 0x80 != 0);
            if self.has_slice && (header.begins_picture() && header.layer == 0 || is_first_slice) {
                out.extend(self.end());
            }
            if self.picture.is_empty() && header.kind != nal::AUD {
                self.picture.extend_from_slice(&START_CODE);
                self.picture.extend_from_slice(&AUD_H265);
            }
            self.has_slice |= header.is_slice();
            if self.picture.len() + nal.len() <= MAX_PICTURE {
                self.picture.extend_from_slice(&START_CODE);
                self.picture.extend_from_slice(&nal);
            }
        }
        out
    }

    /// Ends the picture.
    fn end(&mut self) -> Vec<u8> {
        let data = std::mem::take(&mut self.picture);
        if !std::mem::take(&mut self.has_slice) {
            return Vec::new();
        }
        let number = self.number;
        // Before the first parameter sets nothing can be decoded.
        let Some(picture) = self.pictures.read(number, &data) else { return Vec::new() };
        if picture.header.begins_sequence() || number == 0 {
            // A stream that begins with a CRA picture counts from any number.
            self.origin = i64::from(number) - picture.count;
        }
        self.number = self.number.wrapping_add(1);
        let decode = self.rate.ticks_of(number.into());
        let shown = self.origin + picture.count + picture.reordered as i64;
        let presented = self.rate.ticks_of(u64::try_from(shown).unwrap_or(0)).max(decode);
        let is_entry = picture.header.is_irap();
        let (decode, presented) = (decode as i64, presented as i64);
        self.muxer.push(&Sample { track: 0, decode, presented, is_entry, data })
    }
}
