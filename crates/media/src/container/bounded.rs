//! Reader of a damaged Matroska file: it bounds the number of reads, and clears the top bit of cluster times, to which the demuxer adds
//! without a check.

use std::io::{Error, Read, Result, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Reads of a file until its next frame is found, at most. Chosen by us: reading the headers of a million elements takes a second; the
/// demuxer reads a damaged file round and round.
pub(super) const MOST_READS: u32 = 1 << 20;
/// Identifier of the time of a cluster (RFC 9559 §5.1.3.1), and the length of the largest one. The demuxer adds those of blocks to it.
const CLUSTER_TIME: u8 = 0xe7;
const TIME: usize = 8;
/// Most bytes of an element's header: an identifier of one byte, and a length (RFC 8794 §4, §5).
const HEADER: usize = 9;

/// Reader that fails after too many reads, and clears the top bit of cluster times of eight bytes.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    from: R,
    left: Arc<AtomicU32>,
    /// Last bytes that were read in pieces shorter than a time: an element's header comes byte by byte.
    header: Vec<u8>,
}

impl<R> Bounded<R> {
    /// Creates a reader that fails when `left` reads were done.
    pub(super) fn new(from: R, left: Arc<AtomicU32>) -> Self {
        Self { from, left, header: Vec::new() }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, to: &mut [u8]) -> Result<usize> {
        let left = self.left.load(Ordering::Relaxed).checked_sub(1);
        self.left.store(left.ok_or_else(|| Error::other("it leads round and round"))?, Ordering::Relaxed);
        let mut count = self.from.read(to)?;
        // A time may come in pieces.
        while to.len() == TIME && 0 < count && count < TIME {
            match self.from.read(&mut to[count..])? {
                0 => break,
                more => count += more,
            }
        }
        let read = &mut to[..count];
        if read.len() < TIME {
            self.header.extend_from_slice(read);
            self.header.drain(..self.header.len().saturating_sub(HEADER));
            return Ok(count);
        }
        if read.len() == TIME && begins_time(&self.header) {
            read[0] &= 0x7f;
        }
        self.header.clear();
        Ok(count)
    }
}

impl<R: Seek> Seek for Bounded<R> {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        self.header.clear();
        self.from.seek(to)
    }
}

/// Whether bytes end with the header of a cluster's time of eight bytes; the length itself may have one to eight.
fn begins_time(bytes: &[u8]) -> bool {
    (1..=8usize).any(|len| {
        let mut header = vec![0; len + 1];
        (header[0], header[1]) = (CLUSTER_TIME, 0x80 >> (len - 1));
        header[len] |= TIME as u8;
        bytes.ends_with(&header)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time.
    struct Slow(std::io::Cursor<Vec<u8>>);

    impl Read for Slow {
        fn read(&mut self, to: &mut [u8]) -> Result<usize> {
            let len = to.len().min(1);
            self.0.read(&mut to[..len])
        }
    }

    #[test]
    fn a_time_that_comes_in_pieces_has_no_top_bit() {
        let file = [&[CLUSTER_TIME, 0x88][..], &[0xff; 8]].concat();
        let mut reader = Bounded::new(Slow(std::io::Cursor::new(file)), Arc::new(AtomicU32::new(99)));
        let (mut one, mut time) = ([0], [0; TIME]);
        for _ in 0..2 {
            reader.read_exact(&mut one).unwrap();
        }
        reader.read_exact(&mut time).unwrap();
        assert_eq!(time, [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    }

    #[test]
    fn times_of_clusters_are_found_by_their_headers() {
        for header in [&[0xe7, 0x88][..], &[0xe7, 0x40, 8], &[7, 0xe7, 1, 0, 0, 0, 0, 0, 0, 8]] {
            assert!(begins_time(header), "{header:?}");
        }
        for header in [&[0xe7, 0x84][..], &[0xe7], &[0x88], &[0xe7, 0x88, 0], &[0x73, 0xc5, 0x88]] {
            assert!(!begins_time(header), "{header:?}");
        }
    }
}
