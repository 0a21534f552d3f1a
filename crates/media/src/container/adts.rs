//! ADTS: frames of AAC, one behind the other.

use std::io::{Read, Result};

use super::read::{HZ, damaged, read_exactly, read_or_end};
use super::sample::PlainSample;
use super::track::TrackFormat;
use crate::aac::{AacFormat, FRAME_SAMPLES};

/// Length of a header without a checksum (ISO/IEC 13818-7 §6.2).
const HEADER: usize = 7;
/// Beginnings of tags behind the sound: ID3v1, and APE.
const TAGS: [&[u8]; 2] = [b"TAG", b"APETAGE"];

/// Reader of a file.
#[derive(Debug)]
pub(super) struct Adts {
    format: AacFormat,
    /// Samples so far.
    samples: i64,
    /// Whether the end, or a tag, was read: nothing behind it is sound.
    is_at_end: bool,
}

impl Adts {
    /// Whether bytes begin a frame: synchronisation word, layer zero, a known sampling frequency and channels.
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        let is_known = |third: u8, fourth: u8| third >> 2 & 0x0f < 13 && (third & 1) << 2 | fourth >> 6 > 0;
        matches!(bytes, [0xff, second, third, fourth, ..] if second & 0xf6 == 0xf0 && is_known(*third, *fourth))
    }

    /// Reads the first frame, which is read again.
    pub(super) fn open(from: &mut impl Read) -> Result<std::result::Result<(Self, TrackFormat), String>> {
        let Some(frame) = frame(from)? else { return Ok(Err("ADTS without a frame".to_owned())) };
        let format = AacFormat::read_frame(&frame).map(|(format, ..)| format);
        Ok(format
            .map(|format| (Self { format, samples: 0, is_at_end: false }, TrackFormat::Aac(format)))
            .ok_or_else(|| "ADTS of an unknown kind".to_owned()))
    }

    pub(super) fn next_sample(&mut self, from: &mut impl Read) -> Result<Option<PlainSample>> {
        let frame = if self.is_at_end { None } else { frame(from)? };
        self.is_at_end = frame.is_none();
        let Some(frame) = frame else { return Ok(None) };
        let Some((format, data, _)) = AacFormat::read_frame(&frame) else { return Err(damaged("a frame of ADTS")) };
        if format != self.format {
            return Err(damaged("AAC whose format changes"));
        }
        let time = i128::from(self.samples) * HZ / i128::from(format.hz());
        self.samples += FRAME_SAMPLES;
        Ok(Some(PlainSample { time: time as i64, is_entry: true, data: data.to_vec() }))
    }
}

/// Next frame with its header; `None` at the end, or at a tag.
fn frame(from: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let Some(header) = read_or_end::<HEADER>(from)? else { return Ok(None) };
    if TAGS.iter().any(|tag| header.starts_with(tag)) {
        return Ok(None);
    }
    if !Adts::is_one(&header) {
        return Err(damaged("there is something else between the frames of ADTS"));
    }
    let len = usize::from(header[3] & 3) << 11 | usize::from(header[4]) << 3 | usize::from(header[5] >> 5);
    let rest = read_exactly(from, len.saturating_sub(HEADER))?;
    Ok(Some([&header[..], &rest].concat()))
}
