//! Reading from a file: bytes at a place or in order, and samples that were found but not read.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

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

/// Bytes that are searched at once. Chosen by us: a higher value takes more memory, a lower one more calls.
const CHUNK: u64 = 1 << 16;

/// Finds the first of `wanted` at or behind a place.
pub(super) fn find(from: &mut (impl Read + Seek), at: u64, wanted: &[u8]) -> std::io::Result<Option<u64>> {
    from.seek(SeekFrom::Start(at))?;
    let (mut bytes, mut begin) = (Vec::new(), at);
    while from.by_ref().take(CHUNK).read_to_end(&mut bytes)? > 0 {
        if let Some(place) = bytes.windows(wanted.len()).position(|bytes| bytes == wanted) {
            return Ok(Some(begin + place as u64));
        }
        // It may lie across the end of what was read.
        let searched = (bytes.len() + 1).saturating_sub(wanted.len());
        bytes.drain(..searched);
        begin += searched as u64;
    }
    Ok(None)
}

/// Reads bytes of a known number; `None` at the end of the file before the first one.
pub(super) fn read_or_end<const N: usize>(from: &mut impl Read) -> std::io::Result<Option<[u8; N]>> {
    let mut bytes = [0; N];
    let mut len = 0;
    while len < N {
        match from.read(&mut bytes[len..]) {
            Ok(0) if len == 0 => return Ok(None),
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => len += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(bytes))
}

/// Reads as many bytes; memory is taken as they come.
pub(super) fn read_exactly(from: &mut impl Read, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() < len { Err(ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

/// Error of a file that is damaged.
pub(super) fn damaged(what: &str) -> std::io::Error {
    std::io::Error::new(ErrorKind::InvalidData, what)
}
