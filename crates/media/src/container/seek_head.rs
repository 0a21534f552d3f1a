//! Matroska file without its SeekHead: an index of the file's parts, which a file that is cut off has without the parts.

use std::io::{Read, Result, Seek, SeekFrom};

/// Identifier of a SeekHead (RFC 9559 §5.1.1), and the last byte of one that nothing has.
const SEEK_HEAD: [u8; 4] = [0x11, 0x4d, 0x9b, 0x74];
const NOTHING: u8 = 0x75;
/// Bytes in which the first one is looked for: it is the first element of the segment (RFC 9559 §6.3).
const MAX_LOOK: u64 = 1 << 10;

/// File whose first SeekHead is hidden, so that the demuxer finds the parts one after another. It follows references to other ones
/// in circles.
#[derive(Debug)]
pub(super) struct WithoutSeekHead<R> {
    from: R,
    at: u64,
    hidden: Option<u64>,
}

impl<R: Read + Seek> WithoutSeekHead<R> {
    pub(super) fn new(mut from: R) -> Result<Self> {
        let mut head = Vec::new();
        from.by_ref().take(MAX_LOOK).read_to_end(&mut head)?;
        from.rewind()?;
        let found = head.windows(SEEK_HEAD.len()).position(|bytes| bytes == SEEK_HEAD);
        let hidden = found.map(|at| (at + SEEK_HEAD.len() - 1) as u64);
        Ok(Self { from, at: 0, hidden })
    }
}

impl<R: Read> Read for WithoutSeekHead<R> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let count = self.from.read(to)?;
        let place = self.hidden.and_then(|hidden| usize::try_from(hidden.checked_sub(self.at)?).ok());
        if let Some(byte) = place.and_then(|place| to[..count].get_mut(place)) {
            *byte = NOTHING;
        }
        self.at += count as u64;
        Ok(count)
    }
}

impl<R: Seek> Seek for WithoutSeekHead<R> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.at = self.from.seek(to)?;
        Ok(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    #[test]
    fn one_byte_is_changed_wherever_reading_begins() {
        let bytes = [&[1, 2], &SEEK_HEAD[..], &[3, 4], &SEEK_HEAD].concat();
        let mut file = WithoutSeekHead::new(Cursor::new(&bytes)).unwrap();
        for begin in 0..bytes.len() {
            let mut out = Vec::new();
            file.seek(SeekFrom::Start(begin as u64)).unwrap();
            file.read_to_end(&mut out).unwrap();
            let mut expected = bytes.clone();
            expected[5] = NOTHING;
            assert_eq!(out, expected[begin..]);
        }
    }
}
