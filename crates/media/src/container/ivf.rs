//! IVF: VP8, VP9 or AV1, a header and frames with their times.

use std::io::{Read, Result};

use super::read::{HZ, damaged, read_exactly, read_or_end};
use super::sample::PlainSample;
use super::track::TrackFormat;

/// First bytes, and length of the header.
const SIGNATURE: &[u8] = b"DKIF";
const HEADER: usize = 32;
/// Most bytes of a frame. Chosen by us, as of a picture elsewhere: more takes memory.
const MAX_FRAME: usize = 16 << 20;

/// Reader of a file.
#[derive(Debug)]
pub(super) struct Ivf {
    format: TrackFormat,
    /// Units of time: `scale / rate` seconds.
    rate: u32,
    scale: u32,
}

impl Ivf {
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(SIGNATURE)
    }

    /// Reads the header; the inner error is the reason for which the file is not sent.
    pub(super) fn open(from: &mut impl Read) -> Result<std::result::Result<(Self, TrackFormat), String>> {
        let header = read_exactly(from, HEADER)?;
        let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let more = usize::from(u16::from_le_bytes([header[6], header[7]])).saturating_sub(HEADER);
        read_exactly(from, more)?;
        let format = match &header[8..12] {
            b"VP80" => TrackFormat::Vp8,
            b"VP90" => TrackFormat::Vp9,
            b"AV01" => TrackFormat::Av1 { header: Vec::new() },
            other => return Ok(Err(format!("IVF of {}", String::from_utf8_lossy(other)))),
        };
        Ok(Ok((Self { format: format.clone(), rate: word(16).max(1), scale: word(20) }, format)))
    }

    pub(super) fn next_sample(&mut self, from: &mut impl Read) -> Result<Option<PlainSample>> {
        let Some([s0, s1, s2, s3, time @ ..]) = read_or_end::<12>(from)? else { return Ok(None) };
        let len = u32::from_le_bytes([s0, s1, s2, s3]) as usize;
        if len > MAX_FRAME {
            return Err(damaged("a frame of IVF of more than 16 MB"));
        }
        let time = i128::from(u64::from_le_bytes(time)) * i128::from(self.scale) * HZ / i128::from(self.rate);
        let data = read_exactly(from, len)?;
        let time = i64::try_from(time).unwrap_or(i64::MAX / 4);
        Ok(Some(PlainSample { time, is_entry: self.format.is_entry(&data), data }))
    }
}
