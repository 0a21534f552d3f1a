//! Reading from a file: bytes at a place, and samples that were found but not read.

use std::io::{Read, Seek, SeekFrom};

use super::error::ContainerError;
use crate::rtp::RTP_CLOCK_HZ;

/// Ticks a second of samples' times.
pub(super) const HZ: i128 = RTP_CLOCK_HZ as i128;
/// Most bytes that are read at once, to bound memory: no index or fragment of a real file is larger.
const MAX_READ: u64 = 1 << 30;

/// Sample without its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) id: u32,
    pub(super) decode: i64,
    pub(super) presented: i64,
    pub(super) is_entry: bool,
    pub(super) offset: u64,
    pub(super) size: usize,
}

impl Found {
    /// Creates a sample of a track with `hz` units a second, which is presented `shift` units after it is decoded.
    pub(super) fn new(id: u32, hz: u32, decode: u64, shift: i64, is_entry: bool, offset: u64, size: usize) -> Self {
        let decode = i128::from(decode);
        let ticks = |time: i128| i64::try_from(time * HZ / i128::from(hz.max(1))).unwrap_or(i64::MAX / 4);
        Self { id, decode: ticks(decode), presented: ticks(decode + i128::from(shift)), is_entry, offset, size }
    }
}

/// Reads bytes at a place, all up to the end without a size; less at the end of the file.
pub(super) fn read_at(from: &mut (impl Read + Seek), at: u64, size: Option<u64>) -> Result<Vec<u8>, ContainerError> {
    let most = size.unwrap_or(MAX_READ);
    if most > MAX_READ {
        return Err(ContainerError::Damaged(format!("a box of {most} bytes")));
    }
    from.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    from.by_ref().take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
